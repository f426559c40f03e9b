#pragma once
// What may lie on a disk after the power failed. A trace is split into effects:
// on the bytes of one file, or on names in one folder. An effect is safe once
// its file or folder was synced after it. At any moment the disk holds what is
// safe, and of the rest any part: what a later call did may be there without
// what an earlier one did, as POSIX allows.

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
  /// How much of what is not safe is kept.
  enum class fate { none, all, some };

  /// @param before What the folder held when the recording began; it is safe.
  /// Throws `std::runtime_error` when the trace has a call that it does not
  /// understand.
  explicit disk_image(const std::vector<disk_event>& trace,
                      const std::filesystem::path& before = {});

  /// Events of the trace.
  size_t moments() const noexcept { return moments_; }

  /// Writes into `folder`, which is emptied first, what the disk may hold when
  /// the power fails after so many events.
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
    node_ptr target, second; ///< What the names mean.
    std::string name, other;
    uint64_t offset = 0;
    std::string text;
  };

  /// The folder while the trace is read, with nothing lost.
  struct reader;

  struct content;

  static void apply(const effect& what, content& to, bool torn,
                    std::mt19937_64& random);

  node_ptr root_;
  size_t nodes_ = 0;
  size_t moments_ = 0;
  std::vector<effect> effects_;
};

} // namespace troupe::testing
