#include "config/schema/rules.hpp"

#include "config/patterns/key_patterns.hpp"
#include "config/patterns/param_groups.hpp"
#include "config/patterns/placement.hpp"
#include "config/schema/inner_optimizer.hpp"
#include "config/schema/known_names.hpp"
#include "config/schema/policies.hpp"
#include "config/text/home.hpp"
#include "config/text/text.hpp"
#include "config/values/address.hpp"
#include "config/values/augmentation.hpp"
#include "config/values/compression.hpp"
#include "config/values/distribution.hpp"
#include "config/values/external.hpp"
#include "config/values/faults.hpp"
#include "config/values/lr_schedule.hpp"
#include "config/values/metrics.hpp"
#include "config/values/outliers.hpp"
#include "config/values/script.hpp"
#include "config/values/staleness_rule.hpp"
#include "config/values/synthetic.hpp"
#include "config/values/tar_shards.hpp"

namespace troupe::config::rules {

namespace {

/// The answer of `read`, or what it complains of.
template <class Read>
std::string reason(Read read) {
  try {
    return read();
  } catch (const bad_value& why) {
    return why.what();
  }
}

/// Puts the name that is meant in the place of `value`; false if there is none.
bool put_name(std::string& value, std::span<const std::string> known) {
  auto meant = spelt(value, known);
  if (meant)
    value = *meant;
  return meant.has_value();
}

} // namespace

std::string above_zero(double value) {
  return value > 0 ? "" : "must be above 0";
}

std::string below_one(double value) {
  return value >= 0 && value < 1 ? "" : "must be at least 0 and below 1";
}

std::string share(double value) {
  return value > 0 && value <= 1 ? "" : "must be above 0 and at most 1";
}

std::string seconds(double value) {
  return value > 0 && value <= 1e9 ? "" : "must be above 0 and at most 1e9";
}

std::string one_of::operator()(std::string& value) const {
  return put_name(value, known) ? "" : not_among(value, known);
}

std::string policy(std::string& value) {
  return reason([&]() -> std::string {
    value = find_policy(value).schema.name;
    return "";
  });
}

std::string network(std::string& value) {
  if (is_file(value))
    return reason([&] {
      return network_file(value).empty()
               ? "must name a file: script:FILE or weights:FILE"
               : "";
    });
  auto known = known_networks();
  return put_name(value, known) ? ""
                                : "is no network; --list-networks shows all" +
                                    did_you_mean(value, known);
}

std::string dataset(std::string& value) {
  auto known = known_datasets();
  if (!is_external(value) && put_name(value, known))
    return "";
  return reason([&]() -> std::string {
    if (is_external(value))
      value = to_string(parse_external(value));
    else if (is_synthetic(value))
      parse_synthetic(value);
    else if (is_tar_shards(value))
      parse_tar_shards(value);
    else
      return "is no data set; --list-datasets shows all" +
             did_you_mean(value, known);
    return "";
  });
}

std::string augment(std::string& value) {
  value = in_small_letters(value);
  return reason([&]() -> std::string {
    parse_augmentation(value);
    return "";
  });
}

std::string compression(std::string& value) {
  value = in_small_letters(value);
  return reason([&]() -> std::string {
    parse_compression(value);
    return "";
  });
}

std::string lr_schedule(std::string& value) {
  value = in_small_letters(value);
  return reason([&]() -> std::string {
    parse_lr_schedule(value);
    return "";
  });
}

std::string outliers(std::string& value) {
  value = in_small_letters(value);
  return reason([&]() -> std::string {
    parse_outliers(value);
    return "";
  });
}

std::string inner_optimizer(std::string& value) {
  value = in_small_letters(value);
  return reason([&]() -> std::string {
    check_inner_optimizer(value);
    return "";
  });
}

std::string staleness_rule(std::string& value) {
  value = in_small_letters(value);
  return reason([&]() -> std::string {
    parse_staleness_rule(value);
    return "";
  });
}

std::string metric_target(std::string& value) {
  return reason([&]() -> std::string {
    value = to_string(parse_target(value));
    return "";
  });
}

std::string metric_order(std::string& value) {
  return reason([&]() -> std::string {
    value = to_string(parse_order(value));
    return "";
  });
}

std::string key_patterns(const std::string& value) {
  return reason([&]() -> std::string {
    parse_key_patterns(value);
    return "";
  });
}

std::string placement(std::string& value) {
  return reason([&]() -> std::string {
    value = to_string(parse_placement(value));
    return "";
  });
}

std::string param_groups(std::string& value) {
  return reason([&]() -> std::string {
    value = to_string(parse_param_groups(value));
    return "";
  });
}

std::string path(std::string& value) {
  return reason([&]() -> std::string {
    value = expand_home(value);
    return "";
  });
}

std::string init_method(std::string& value) {
  return reason([&]() -> std::string {
    constexpr std::string_view file = "file://";
    if (value.starts_with(file))
      value.replace(file.size(), value.npos,
                    expand_home(value.substr(file.size())));
    return "";
  });
}

std::string host(std::string& value) {
  if (value.starts_with('[') && value.ends_with(']') &&
      value.find(':') != value.npos)
    value = value.substr(1, value.size() - 2);
  auto odd = value.find_first_of(" \t/[]") != std::string::npos;
  return odd ? "must be a host name or an address" : "";
}

std::string host_and_port(const std::string& value) {
  return reason([&] {
    auto where = parse_address(value);
    return host(where.host);
  });
}

std::string advertise(const std::string& value) {
  return reason([&]() -> std::string {
    auto where = parse_host(value);
    if (is_any_host(where.host))
      return "is no address that others could dial: give this node's own";
    return host(where.host);
  });
}

std::string distribution(const std::string& value) {
  return reason([&]() -> std::string {
    parse_distribution(value);
    return "";
  });
}

std::string rate(const std::string& value) {
  return reason([&] { return above_zero(parse<double>(value)); });
}

std::string delay(const std::string& value) {
  return reason([&] { return from{0, 1e9}(parse<double>(value)); });
}

std::string faults(std::string& value) {
  return reason([&]() -> std::string {
    if (!parse_random_faults(value))
      value = expand_home(value);
    return "";
  });
}

std::string policy_changes(const std::string& value) {
  return reason([&]() -> std::string {
    parse_policy_changes(value);
    return "";
  });
}

std::string device(std::string& value) {
  value = in_small_letters(value);
  auto index = value.starts_with("cuda:") ? value.substr(5) : "0";
  auto known = value == "cpu" || value == "cuda" || value == "auto" ||
               value.starts_with("cuda:");
  auto why = reason([&] { return from{0, 15}(parse<uint32_t>(index)); });
  return known && why.empty()
           ? ""
           : "must be cpu, cuda, cuda:N with N up to 15, or auto";
}

} // namespace troupe::config::rules
