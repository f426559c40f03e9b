#pragma once
// Ensures that only one process uses a run directory: it holds an flock on the
// file `run.lock` in it until it ends. Owned by whoever writes the directory;
// taken by main's thread, immutable afterwards.
//
// The kernel releases the lock when the process ends, however it ends, so on a
// local disk no lock is ever left behind. On a network file system the file
// server keeps it: a process on another host can take the lock once the file
// server has noticed that the first host is gone (NFS: when its lease expires,
// after some 90 s). Where a file system has no locks, the run continues without
// one and `warning` says why. The file itself is never removed: otherwise two
// processes could hold locks on two files of the same name.

#include <filesystem>
#include <memory>
#include <string>

namespace troupe::config {

class run_lock {
public:
  /// Locks an existing folder. Throws `run_error` when another process holds
  /// the lock (the line names it) or the file cannot be written.
  static std::shared_ptr<const run_lock>
  take(const std::filesystem::path& folder);

  ~run_lock();

  run_lock(const run_lock&) = delete;
  run_lock& operator=(const run_lock&) = delete;

  /// Why there is no protection; empty when there is.
  const std::string& warning() const noexcept { return warning_; }

private:
  run_lock() = default;

  int file_ = -1;
  std::string warning_;
};

} // namespace troupe::config
