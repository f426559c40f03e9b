#pragma once
// Fuzz targets' helpers for descriptions of a run, which are read from
// checkpoints, event logs and servers.

#include "config/runs/description.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {

/// A description with these settings in which every field is set.
inline config::run_description
sample_description(const config::settings& settings) {
  config::run_description out;
  out.run_id = "00ff";
  out.life = 2;
  out.settings = config::shared_settings(settings);
  out.data = {"digits", 10, {1, 8, 8}, {{1437, 7, 8}}, {{360, 9, 10}}};
  out.network_sha256 = std::string(64, 'a');
  out.changes = {{100, 2, "training.lr", "0.1", "0.01"}};
  return out;
}

/// Compares a run with a node that has different settings, data and network:
/// the differences must be lines for a user, and a run must not differ from
/// itself.
inline void compare(const config::run_description& run, config::pairs own) {
  config::run_description here;
  here.settings = std::move(own);
  here.data = {"other", 11, {3, 9, 9}, {{1, 1, 1}}, {{2, 2, 2}}};
  here.network_sha256 = std::string(64, 'b');
  for (auto how : {config::relation::join, config::relation::resume}) {
    for (const auto& one : config::differences(run, here, how))
      require_one_line(to_string(one));
    require(config::differences(here, here, how).empty(),
            "a run is like itself");
  }
}

} // namespace troupe::fuzz
