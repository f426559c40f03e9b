#pragma once
// One process at a time has a run directory: it holds an flock on the file
// `run.lock` in it, from its start to its end.
//
// The kernel lets go of the lock when the process ends, however it ends, so
// that a lock is never left behind on a local disk. On a network file system it
// is the file server that keeps it: a server on another host takes over as soon
// as the file server has noticed that the first host is gone (NFS: when its
// lease runs out, in some 90 s). Where a file system knows no locks the run
// goes on without, and `warning` says why. The file itself stays: removing it
// would let two processes hold locks on two files of one name.

#include <filesystem>
#include <memory>
#include <string>

namespace troupe::config {

class run_lock {
public:
  /// Takes the lock of a folder that exists. Throws `run_error`, which names
  /// who has it, when another process does or the file cannot be written.
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
