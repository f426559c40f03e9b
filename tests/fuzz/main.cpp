// fuzz --format=NAME [libFuzzer's own flags and folders]
// fuzz --list           the formats
// fuzz --seeds FOLDER   writes good inputs of each format
//
// libFuzzer brings main(), and leaves flags with two dashes to us.

#include "tests/fuzz/seeds.hpp"
#include "tests/fuzz/targets.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace troupe::fuzz;

namespace {

const target* chosen = nullptr;

[[noreturn]] void list() {
  for (const auto& each : all_targets())
    std::puts(std::string{each.name}.c_str());
  std::exit(0);
}

[[noreturn]] void make_seeds(const char* folder) {
  write_seeds(folder);
  std::exit(0);
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  constexpr std::string_view format = "--format=";
  std::vector<std::string_view> all{*arguments + 1, *arguments + *count};
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == "--list")
      list();
    if (all[i] == "--seeds" && i + 1 < all.size())
      make_seeds(all[i + 1].data());
    if (all[i].starts_with(format))
      chosen = find_target(all[i].substr(format.size()));
  }
  if (!chosen) {
    std::fputs("usage: fuzz --format=NAME ...; --list shows all\n", stderr);
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chosen->run({data, size});
  return 0;
}
