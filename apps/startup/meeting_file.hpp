#pragma once
// A file through which rank 0 tells the others where it listens: `--init-method
// file:///PATH`, as torch.distributed has it. All nodes must see the file.

#include "config/sources/resolve.hpp"
#include "config/values/address.hpp"

#include <filesystem>
#include <memory>
#include <optional>

namespace troupe::app {

/// Held by rank 0 while it lives, which a lock on the file shows: a file that a
/// killed process has left does not count. Called by main's thread.
class meeting_file {
public:
  /// Writes the address. Throws `run_error` when it cannot, or when another
  /// process that lives has the file, and `usage_error`, without a change, when
  /// there is a file of something else.
  meeting_file(std::filesystem::path path, const config::address& where);

  /// Removes the file, if it is still there.
  ~meeting_file();

  meeting_file(const meeting_file&) = delete;
  meeting_file& operator=(const meeting_file&) = delete;

private:
  std::filesystem::path path_;
  int file_ = -1;
};

/// The address in the file; nothing while no process that lives has written it.
/// Throws `usage_error` when it is a file of something else.
std::optional<config::address>
read_meeting_file(const std::filesystem::path& path);

/// Fills in where rank 0 listens, if a file says so: rank 0 takes a free port
/// and writes the file, which lasts as long as the result; others wait for it
/// as long as for a connection. In a run's next life all know it already.
/// Throws `run_error` when nothing comes, and `usage_error` when that address
/// is not allowed.
std::unique_ptr<meeting_file> meet_by_file(config::resolved& all);

} // namespace troupe::app
