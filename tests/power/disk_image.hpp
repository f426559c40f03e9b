#pragma once
// The possible contents of a disk after a power failure. A trace is split into
// effects: on the bytes of one file, or on names in one folder. An effect is
// safe once its file or folder was synced after it. After a failure the disk
// holds all safe effects and any subset of the others: a later call may have
// taken effect without an earlier one, as POSIX allows.

#include "tests/power/disk_trace.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace troupe::testing {

class disk_image {
public:
  /// How many of the unsafe effects are kept.
  enum class fate { none, all, some };

  /// @param before The folder when the recording began; all of it is safe.
  /// Throws `std::runtime_error` when the trace has an unknown call.
  explicit disk_image(const std::vector<disk_event>& trace,
                      const std::filesystem::path& before = {});

  /// Number of events in the trace.
  size_t moments() const noexcept { return moments_; }

  /// Empties `folder` and writes into it what the disk may hold if the power
  /// fails after so many events.
  void write(const std::filesystem::path& folder, size_t moment, fate rest,
             std::mt19937_64& random) const;

private:
  struct node;
  using node_ptr = std::shared_ptr<node>;
  using names = std::map<std::string, node_ptr>;

  struct node {
    bool is_folder = false;
    size_t number = 0;
  };

  /// A change of one file or folder.
  struct effect {
    enum class kind { bytes, size, link, unlink, move, swap } what{};
    size_t at = 0;           ///< Event of the trace.
    size_t safe = SIZE_MAX;  ///< The sync that makes it safe.
    node_ptr of;             ///< The file or folder that changes.
    node_ptr target, second; ///< What the names refer to.
    std::string name, other;
    uint64_t offset = 0;
    std::string text;
  };

  /// The folder while the trace is being read, with nothing lost.
  struct reader;

  struct content;

  static void apply(const effect& step, content& to, bool torn,
                    std::mt19937_64& random);

  node_ptr root_;
  size_t nodes_ = 0;
  size_t moments_ = 0;
  std::vector<effect> effects_;
};

} // namespace troupe::testing
