#pragma once
// Ensures that only one process uses a run directory: it holds an flock on the
// file `run.lock` in it until it ends. Owned by whoever writes the directory;
// taken by main's thread, immutable afterwards.
//
// The kernel releases the lock when the process ends, however it ends, so on a
// local disk no lock is ever left behind. On a network file system the file
// server keeps it: a process on another host can take the lock once the file
// server has noticed that the first host is gone (NFS: when its lease expires,
// after some 90 s). Where a file system has no locks, or its locks keep nobody
// out, the run continues without one and `warning` says why. The file itself is
// never removed: otherwise two processes could hold locks on two files of the
// same name.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace troupe::config {

/// The environment variable by which a process hands its lock over to the
/// program that replaces its own.
inline constexpr const char* run_lock_variable = "TROUPE_RUN_LOCK";

/// What another process sees of a run's lock.
enum class lock_state : uint8_t {
  held = 1, ///< By somebody, and this process notices.
  free,     ///< Nobody holds it, as far as this process can see.
  absent    ///< There is no such file here, or no locks.
};

struct lock_view {
  lock_state state = lock_state::absent;
  std::string holder; ///< "process 123 on node-7"; who has taken it last.
};

class run_lock {
public:
  /// Locks an existing folder. Throws `run_error` when another process holds
  /// the lock (the line names it) or the file cannot be written, `usage_error`
  /// when the file is none of ours.
  /// @param patience Seconds that another process may still hold it.
  /// @param check Called before this process signs as the holder; throws if it
  /// must not hold the lock; may be empty.
  static std::shared_ptr<const run_lock>
  acquire(const std::filesystem::path& folder, double patience = 0,
          const std::function<void(const run_lock&)>& check = {});

  /// Looks at the lock of a folder, without taking it. Thread-safe.
  static lock_view look(const std::filesystem::path& folder);

  ~run_lock();

  run_lock(const run_lock&) = delete;
  run_lock& operator=(const run_lock&) = delete;

  /// Why there is no protection; empty when there is.
  const std::string& warning() const noexcept { return warning_; }

  /// Whether this process has taken the lock before, as its last holder.
  bool was_ours() const noexcept { return was_ours_; }

  /// Leaves the lock to the program that this process is to be replaced with:
  /// `acquire` finds it there, and nobody can take it in between. Called by
  /// main's thread.
  void hand_over() const;

private:
  run_lock() = default;

  int file_ = -1;
  bool was_ours_ = false;
  std::string warning_;
};

} // namespace troupe::config
