#include "tests/fuzz/seeds.hpp"

#include "tests/fuzz/targets.hpp"
#include "tests/support/temporary_folder.hpp"

namespace troupe::fuzz {

inputs seeds(std::string_view format) {
  inputs all;
  for (auto* part : {data_seeds, run_seeds, text_seeds, peer_seeds, tls_seeds,
                     entry_seeds, trust_seeds, launch_seeds})
    all.merge(part(format));
  return all;
}

void write_seeds(const std::filesystem::path& folder) {
  for (const auto& each : all_targets()) {
    auto to = folder / each.name;
    std::filesystem::create_directories(to);
    for (const auto& [name, bytes] : seeds(each.name))
      testing::spill(to / name, bytes);
  }
}

} // namespace troupe::fuzz
