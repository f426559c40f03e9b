#include "config/sources/ini.hpp"

#include "config/report/plan.hpp"
#include "config/report/report.hpp"
#include "config/rules/validate.hpp"
#include "config/schema/keys.hpp"
#include "config/sources/resolve.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"

namespace troupe::fuzz {

namespace {

config::resolved read_ini(const memory_file& file) {
  return config::resolve(config::from_file(file.path()));
}

/// Checks that a run's config.ini makes the same run again.
void rewrite_settings(const config::settings& all) {
  memory_file file{config::to_ini(all)};
  auto again = read_ini(file).values;
  for (const auto& each : config::all_keys())
    require(each.where == config::scope::start ||
              each.get(all) == each.get(again),
            "what is written reads back to the same settings");
}

} // namespace

bool ini(bytes_view data) {
  memory_file file{data};
  config::resolved all;
  if (!taken([&] { all = read_ini(file); }))
    return false;
  rewrite_settings(all.values);
  config::print_config(all);
  all.values.what = config::role::simulate;
  return taken([&] {
    config::validate(all);
    config::plan(all);
  });
}

} // namespace troupe::fuzz
