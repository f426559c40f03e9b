// A value of a setting, `section.key=value`, and the same value to each of the
// grammars, whatever the key is.

#include "config/schema/keys.hpp"
#include "config/text/value.hpp"
#include "config/values/address.hpp"
#include "config/values/augmentation.hpp"
#include "config/values/compression.hpp"
#include "config/values/distribution.hpp"
#include "config/values/faults.hpp"
#include "config/values/lr_schedule.hpp"
#include "config/values/synthetic.hpp"
#include "config/values/tar_shards.hpp"
#include "tests/fuzz/targets.hpp"

#include <string>

namespace troupe::fuzz {

namespace {

using config::bad_value;

constexpr uint32_t workers = 4;

bool grammars(std::string_view text) {
  auto any = false;
  auto read = [&](auto how) {
    any |= taken<bad_value>(how);
  };
  read([&] { config::parse_address(text); });
  read([&] { config::parse_augmentation(text); });
  read([&] { config::parse_compression(text); });
  read([&] { config::parse_distribution(text); });
  read([&] { config::parse_lr_schedule(text); });
  read([&] { config::parse_random_faults(text); });
  read([&] { config::parse_tar_shards(text); });
  read([&] {
    auto found = to_string(config::parse_synthetic(text));
    require(to_string(config::parse_synthetic(found)) == found,
            "a data set reads back");
  });
  read([&] {
    auto found = config::parse_fault(1, text);
    require(config::parse_fault(1, to_string(found)) == found,
            "a fault reads back");
  });
  auto faults = taken([&] { config::parse_faults(text, "x", workers); });
  return any || faults;
}

const config::key* key_of(std::string_view id) {
  auto dot = id.find('.');
  return dot == id.npos
           ? nullptr
           : config::find_key(id.substr(0, dot), id.substr(dot + 1));
}

bool set(const config::key& key, std::string_view value) {
  config::settings all;
  if (!taken<bad_value>([&] { key.set(all, value); }))
    return false;
  auto printed = key.get(all);
  config::settings again;
  key.set(again, printed);
  require(key.get(again) == printed, "what is printed reads back");
  return true;
}

} // namespace

bool settings(bytes_view data) {
  auto text = text_of(data);
  auto equals = std::min(text.find('='), text.size());
  const auto* what = key_of(text.substr(0, equals));
  if (!what)
    return grammars(text);
  auto value = text.substr(std::min(equals + 1, text.size()));
  grammars(value);
  return !config::has_control_character(value) && set(*what, value);
}

} // namespace troupe::fuzz
