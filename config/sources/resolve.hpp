#pragma once
// From what was given where to the settings of a run, with the origin of each:
// default < earlier run < file < environment < flag. Among equals the last one
// counts.

#include "config/schema/keys.hpp"
#include "config/text/settings.hpp"

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// Where a value comes from.
struct origin {
  /// `run`: the run that this start goes on with (earlier_run.hpp).
  enum class source : uint8_t { by_default, run, file, environment, flag };

  source from = source::by_default;
  /// "runs/a/checkpoints/step-00000100", "cluster.ini:12",
  /// "TROUPE_TRAINING_LR", "--lr", "--set", "--change"
  std::string where;
  /// The value that it was written in, where that gives values to other keys,
  /// too: "ssp(staleness=3)" of [policy] name.
  std::string call{};

  /// "default", "run runs/a/...", "cluster.ini:12",
  /// "environment TROUPE_TRAINING_LR", "flag --lr"
  std::string to_string() const;

  bool operator==(const origin&) const = default;
};

/// A value as somebody gave it, not yet read.
struct given {
  const key* what;
  std::string text;
  origin from;

  /// For errors: what was written where, as it was written:
  /// "cluster.ini:12: [training] lr = 0", "--lr 0", "TROUPE_TRAINING_LR=0".
  std::string cite() const;
};

/// A setting that a start of the run changed deliberately (`--change`).
struct change {
  uint64_t step = 0;  ///< The version of the weights that it began with.
  uint32_t life = 0;  ///< Of the server that began with it.
  std::string key;    ///< "training.lr"
  std::string before; ///< Empty: it was not set.
  std::string after;

  bool operator==(const change&) const = default;
};

/// Adds what somebody gave. A policy with parameters, `ssp(staleness=3)`, is
/// several: its name, and a value for the key of each parameter. Throws
/// `usage_error` when it cannot be read as such.
void add(std::vector<given>& to, given one);

/// Variables of the environment.
using environment = std::map<std::string, std::string, std::less<>>;

/// Those of this process.
environment process_environment();

/// What a file gives. Throws `usage_error`, also for unknown keys.
std::vector<given> from_file(const std::filesystem::path& file);

/// What the variables TROUPE_<SECTION>_<KEY> give; an empty one counts as not
/// given. Throws `usage_error` for one with a known section and unknown key.
std::vector<given> from_environment(const environment& variables);

/// The settings of a run, and where each came from. Keys are named by their id,
/// "training.batch-size".
class resolved {
public:
  settings values;

  /// Reads and checks a value and keeps where it came from. Throws
  /// `usage_error`, which names the origin.
  void take(const given& one);

  const origin& origin_of(std::string_view id) const;

  /// Whether anybody gave a value to this start, be it the same as the default.
  bool is_explicit(std::string_view id) const;

  /// Whether it is the default: neither given nor the earlier run's.
  bool is_default(std::string_view id) const;

  /// The value and where it was given, as an error begins: "--lr 0"; for a
  /// default "[training] lr = 0.01 (default)".
  std::string cite(std::string_view id) const;

  /// What differs from the earlier run on purpose; see earlier_run.hpp.
  std::vector<change> changes;

private:
  std::map<std::string, origin, std::less<>> origins_;
};

/// Reads what was given, weakest first, and fills in the defaults that depend
/// on other keys. Only the values that count are looked at. Throws
/// `usage_error`, also when one source gives a parameter of the policy twice,
/// in a call and by its key, and they differ.
resolved resolve(std::span<const given> all);

/// The batch of a worker from that of all, where that is given; to be asked
/// again when the number of workers has changed.
void fill_in_batch_size(resolved& all);

} // namespace troupe::config
