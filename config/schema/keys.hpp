#pragma once
// The one table of all settings that users can give: the keys of the INI file,
// the flags, the variables of the environment. Help, files, messages between
// nodes and their tests are made from it, so that a new key is one entry here.

#include "config/text/settings.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// Whose business a setting is.
enum class scope : uint8_t {
  /// The same for all: workers and evaluators take it from the parameter
  /// server; a different value given explicitly is an error.
  cluster,
  /// Each node's own.
  node,
  /// Of this one start: not written to the run's config.ini, so that starting
  /// from that file again does not overwrite the run, say.
  start
};

struct key {
  std::string section; ///< Without brackets: "training".
  std::string name;    ///< In its section: "batch-size".
  std::string flag;    ///< Without dashes: "batch-size", but "policy" for name.
  std::string value;   ///< What stands for the value in the help: "N".
  std::string help;    ///< Meaning and unit.
  std::string alone;   ///< The flag's value when none follows; empty: one must.
  scope where = scope::node;

  /// The value as text; empty when it is not set.
  std::function<std::string(const settings&)> get;
  /// Reads and checks the value; empty text unsets what may be unset. Throws
  /// `bad_value`.
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

/// By "section.key"; throws `std::out_of_range` for an id that is none.
const key& key_of(std::string_view id);

/// Null when there is none.
const key* find_key(std::string_view section, std::string_view name);
const key* find_flag(std::string_view flag);
const key* find_variable(std::string_view variable);

/// The key that a user named. Throws `usage_error`, which begins with `where`
/// ("cluster.ini:7"), for an unknown section or key and names what may be
/// meant.
const key& named_key(const std::string& where, std::string_view section,
                     std::string_view name);

} // namespace troupe::config
