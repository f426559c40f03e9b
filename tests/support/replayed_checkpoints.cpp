#include "tests/support/replayed_checkpoints.hpp"

#include "messages/proto/manifest.pb.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>

namespace troupe::test {

namespace {

namespace fs = std::filesystem;

std::optional<std::string> bytes_of(const fs::path& file) {
  std::ifstream in{file, std::ios::binary};
  if (!in)
    return std::nullopt;
  return std::string{std::istreambuf_iterator<char>{in}, {}};
}

std::string name_of(uint64_t step) {
  char out[32];
  std::snprintf(out, sizeof out, "step-%08llu",
                static_cast<unsigned long long>(step));
  return out;
}

} // namespace

checkpoint_comparison compare_checkpoints(const fs::path& run, uint64_t life,
                                          const fs::path& replay) {
  checkpoint_comparison out;
  std::error_code none;
  for (const auto& saved : fs::directory_iterator{run / "checkpoints", none}) {
    proto::Manifest manifest;
    auto text = bytes_of(saved.path() / "manifest.pb");
    if (!text || !manifest.ParseFromString(*text) ||
        manifest.ps_incarnation() != life)
      continue;
    ++out.compared;
    auto again = replay / "checkpoints" / name_of(manifest.step());
    for (const auto* name : {"model.safetensors", "optimizer.safetensors"})
      if (auto found = bytes_of(again / name);
          !found || found != bytes_of(saved.path() / name))
        out.differences.push_back(
          (saved.path() / name).string() +
          (found ? " has other bits than " : " is not in the replay: ") +
          again.string());
  }
  return out;
}

} // namespace troupe::test
