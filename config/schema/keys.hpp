#pragma once
// The one table of all settings that users can give: keys of the INI file,
// flags, environment variables. Help, configuration files, messages between
// nodes and their tests are derived from it, so a new setting is one entry
// here. Built once, immutable, so any thread may read it.

#include "config/text/settings.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// To whom a setting applies.
enum class scope : uint8_t {
  /// The whole cluster: workers and evaluators take the value from the
  /// parameter server, and giving a different one explicitly is an error.
  cluster,
  /// Each node has its own value.
  node,
  /// This start only: it is not written to the run's config.ini. Otherwise
  /// starting from that file again would, for example, overwrite the run.
  start
};

struct key {
  std::string section; ///< Without brackets: "training".
  std::string name;    ///< Within its section: "batch-size".
  std::string flag;  ///< Without dashes: "batch-size"; [policy] name: "policy".
  std::string value; ///< The value's placeholder in the help: "N".
  std::string help;  ///< Meaning and unit.
  std::string alone; ///< Value of the flag alone; empty: it needs one.
  scope where = scope::node;

  /// The value as text; empty when it is not set.
  std::function<std::string(const settings&)> get;
  /// Reads and checks the value; an empty text unsets an optional setting.
  /// Throws `bad_value`.
  std::function<void(settings&, std::string_view)> set;

  /// "training.batch-size"
  std::string id() const;
  /// "TROUPE_TRAINING_BATCH_SIZE"
  std::string variable() const;
  /// The default as text; empty when there is none.
  std::string default_text() const;
};

/// All keys, in the order that users see.
const std::vector<key>& all_keys();

/// The sections in their order.
const std::vector<std::string>& all_sections();

/// The key of this id, "section.key"; throws `std::out_of_range` if there is
/// none.
const key& key_of(std::string_view id);

/// Null when there is none.
const key* find_key(std::string_view section, std::string_view name);
const key* find_flag(std::string_view flag);
const key* find_variable(std::string_view variable);

/// The key that a user named. For an unknown section or key, throws a
/// `usage_error` that begins with `where` ("cluster.ini:7") and suggests the
/// closest name.
const key& named_key(const std::string& where, std::string_view section,
                     std::string_view name);

} // namespace troupe::config
