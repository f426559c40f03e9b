#pragma once
// Combines the settings given in different places into the settings of a run,
// and keeps the origin of each: default < earlier run < file < environment <
// flag. Within one source the last value is used. Used by main's thread;
// `resolved` is a plain value.

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
  /// `run`: the run that this start resumes (earlier_run.hpp).
  enum class source : uint8_t { by_default, run, file, environment, flag };

  source from = source::by_default;
  /// "runs/a/checkpoints/step-00000100", "cluster.ini:12",
  /// "TROUPE_TRAINING_LR", "--lr", "--set", "--change"
  std::string where;
  /// The text that the value was written in, if that sets other keys, too:
  /// "ssp(staleness=3)" of [policy] name, "2:4" of [cluster] workers.
  std::string call{};

  /// "default", "run runs/a/...", "cluster.ini:12",
  /// "environment TROUPE_TRAINING_LR", "flag --lr"
  std::string to_string() const;

  bool operator==(const origin&) const = default;
};

/// The environment variable that names LibTorch's CUDA part, where that does
/// not lie beside LibTorch's other libraries. No setting: it is for this
/// process.
inline constexpr const char* cuda_library_variable = "TROUPE_CUDA_LIBRARY";

/// The same for NCCL, where that is not the copy that LibTorch has loaded.
inline constexpr const char* nccl_library_variable = "TROUPE_NCCL_LIBRARY";

/// The environment variable by which `launch` tells the server that it wants to
/// know whose gradients reach the weights. No setting, either.
inline constexpr const char* launched_variable = "TROUPE_LAUNCHED";

/// What the server's line about that begins with; the rank of the worker
/// follows. Printed once in each life of a worker.
inline constexpr std::string_view first_gradient = "first        gradient of ";

/// A value as it was given, not parsed yet.
struct given {
  const key* what;
  std::string text;
  origin from;

  /// For error lines: what was written, and where: "cluster.ini:12: [training]
  /// lr = 0", "--lr 0", "TROUPE_TRAINING_LR=0".
  std::string cite() const;
};

/// A setting that was changed deliberately: by a start of the run
/// (`--change`), or while it ran (`trainer_node ctl`).
struct change {
  uint64_t step = 0;  ///< Version of the weights then.
  uint32_t life = 0;  ///< Life of the server then.
  std::string key;    ///< "training.lr"
  std::string before; ///< Empty: it was not set.
  std::string after;
  bool live = false; ///< While it ran.

  bool operator==(const change&) const = default;
};

/// Adds a given value. A policy with parameters, `ssp(staleness=3)`, becomes
/// several values: its name and one for each parameter. So does a range of
/// workers, `2:4`. Throws `usage_error` when it cannot be parsed.
void add(std::vector<given>& to, given one);

/// Variables of the environment.
using environment = std::map<std::string, std::string, std::less<>>;

/// The environment variables of this process.
environment process_environment();

/// The values in a file. Throws `usage_error`, also for unknown keys.
std::vector<given> from_file(const std::filesystem::path& file);

/// The values of the variables TROUPE_<SECTION>_<KEY>; an empty one counts as
/// not given, and what Kubernetes says about its services is passed over.
/// Throws `usage_error` for a known section with an unknown key.
std::vector<given> from_environment(const environment& variables);

/// The settings of a run, and where each came from. Keys are named by their id,
/// "training.batch-size".
class resolved {
public:
  settings values;

  /// Parses and checks a value and stores its origin. Throws `usage_error`,
  /// which names the origin.
  void set_value(const given& one);

  /// From now on the value counts as not given.
  void forget(std::string_view id);

  const origin& origin_of(std::string_view id) const;

  /// Whether a value was given for this start, even if it equals the default.
  bool is_explicit(std::string_view id) const;

  /// Whether the value is the default: neither given nor taken from the earlier
  /// run.
  bool is_default(std::string_view id) const;

  /// The value and its origin, as an error line begins: "--lr 0"; for a default
  /// "[training] lr = 0.01 (default)".
  std::string cite(std::string_view id) const;

  /// The deliberate changes to the earlier run; see earlier_run.hpp.
  std::vector<change> changes;

  /// What this start has to say about its settings, a line each.
  std::vector<std::string> notes;

  /// What a launcher's variables have decided, and which: lines for the log.
  std::vector<std::string> decisions;

  /// Whether these are the settings of a run that is repeated (`--replay`).
  bool is_replay = false;

private:
  std::map<std::string, origin, std::less<>> origins_;
};

/// Throws `usage_error` about the value of a setting: "--lr 0: WHAT".
[[noreturn]] void refuse(const resolved& all, std::string_view id,
                         const std::string& reason);

/// Combines given values, weakest first, and fills in the defaults that depend
/// on other keys. Only the values that take effect are checked. Throws
/// `usage_error`, also when one source sets a parameter of the policy to two
/// different values, in a call and by its key.
resolved resolve(std::span<const given> all);

/// Computes a worker's batch size from the global one, if that is given. To be
/// called again when the number of workers has changed.
void fill_in_batch_size(resolved& all);

} // namespace troupe::config
