// The system's calls that change files, recorded. Linked into a test or
// preloaded into a program: either way libraries find these functions before
// those of the system. Each event is written before the call that follows on it
// can be made, under one lock, so that the order is that of the calls.

#include "tests/power/disk_trace.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace {

using troupe::testing::disk_call;
using troupe::testing::disk_event;

struct open_file {
  uint64_t at = 0;
  bool appends = false;
};

struct recorder {
  std::mutex mutex;
  std::string root; ///< With a slash at its end; empty: nothing is recorded.
  std::string broken;
  bool exchanges = true;
  int out = -1;
  std::map<int, open_file> files;
};

/// Never destroyed: calls come until the very end. Null before its first use.
recorder& me() {
  static auto* instance = [] {
    auto* made = new recorder;
    const char* root = std::getenv(troupe::testing::disk_root_variable);
    const char* trace = std::getenv(troupe::testing::disk_trace_variable);
    if (root != nullptr && trace != nullptr) {
      made->root = std::string{root} + "/";
      made->out = static_cast<int>(
        ::syscall(SYS_openat, AT_FDCWD, trace,
                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    }
    return made;
  }();
  return *instance;
}

std::string link_of(int folder) {
  char text[4096];
  auto path = "/proc/self/fd/" + std::to_string(folder);
  auto n = ::syscall(SYS_readlinkat, AT_FDCWD, path.c_str(), text, sizeof text);
  return n > 0 ? std::string{text, static_cast<size_t>(n)} : std::string{};
}

std::string working_folder() {
  char text[4096];
  return ::syscall(SYS_getcwd, text, sizeof text) > 0 ? text : "";
}

/// The path below the root; nothing when it is outside of it. Takes paths as
/// they are written, except for "." and slashes.
bool below(int folder, const char* path, std::string& out) {
  const auto& root = me().root;
  if (root.empty() || path == nullptr)
    return false;
  std::string whole = path;
  if (whole.empty() || whole[0] != '/')
    whole =
      (folder == AT_FDCWD ? working_folder() : link_of(folder)) + "/" + whole;
  std::string clean;
  for (size_t at = 0; at < whole.size();) {
    auto end = std::min(whole.find('/', at), whole.size());
    auto part = whole.substr(at, end - at);
    if (!part.empty() && part != ".")
      clean += "/" + part;
    at = end + 1;
  }
  if (clean + "/" == root) {
    out.clear();
    return true;
  }
  if (clean.compare(0, root.size(), root) != 0)
    return false;
  out = clean.substr(root.size());
  return true;
}

void put(const disk_event& event) {
  auto bytes = to_bytes(event);
  size_t done = 0;
  while (done < bytes.size()) {
    auto n =
      ::syscall(SYS_write, me().out, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno != EINTR)
      std::abort();
    done += n > 0 ? static_cast<size_t>(n) : 0;
  }
}

disk_event event_of(disk_call call, std::string path = {},
                    std::string other = {}) {
  disk_event out;
  out.what = call;
  out.path = std::move(path);
  out.other = std::move(other);
  return out;
}

bool makes(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

bool is_ours(int handle) {
  return me().files.count(handle) > 0;
}

void forget(int handle) {
  if (!is_ours(handle))
    return;
  auto event = event_of(disk_call::close);
  event.file = handle;
  put(event);
  me().files.erase(handle);
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  std::string where;
  std::unique_lock guard{me().mutex, std::defer_lock};
  auto ours = below(folder, path, where);
  auto there = true;
  if (ours) {
    guard.lock();
    struct stat info;
    there =
      ::syscall(SYS_newfstatat, folder, path, &info, AT_SYMLINK_NOFOLLOW) == 0;
  }
  auto handle =
    static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
  if (!ours) {
    guard.lock();
    forget(handle); // The library closes some handles by itself.
    return handle;
  }
  if (handle < 0)
    return handle;
  auto event = event_of(disk_call::open, where);
  event.file = handle;
  event.made = !there;
  event.emptied = there && (flags & O_TRUNC) != 0;
  me().files[handle] = {0, (flags & O_APPEND) != 0};
  put(event);
  return handle;
}

/// Also of calls that write at a place of their own.
void put_write(int handle, const void* from, ssize_t n, off_t at) {
  auto found = me().files.find(handle);
  if (found == me().files.end() || n <= 0)
    return;
  auto& file = found->second;
  disk_event event;
  event.what = disk_call::write;
  event.file = handle;
  event.text.assign(static_cast<const char*>(from), static_cast<size_t>(n));
  if (at >= 0)
    event.offset = static_cast<uint64_t>(at);
  else if (file.appends)
    event.offset = UINT64_MAX; // At its end, wherever that is.
  else
    event.offset = std::exchange(file.at, file.at + static_cast<uint64_t>(n));
  put(event);
}

/// A call on a handle, with an event of it when it went well.
template <class Call>
auto on_file(int handle, disk_event event, Call call) {
  std::unique_lock guard{me().mutex};
  auto result = call();
  if (result == 0 && is_ours(handle)) {
    event.file = handle;
    put(event);
  }
  return result;
}

/// A call on names. Those that go from or to elsewhere are strange.
template <class Call>
int on_names(int folder, const char* path, int other_folder, const char* other,
             disk_call kind, Call call) {
  std::string from, to;
  auto ours = below(folder, path, from);
  auto also = other != nullptr && below(other_folder, other, to);
  if (!ours && !also)
    return static_cast<int>(call());
  std::unique_lock guard{me().mutex};
  auto result = static_cast<int>(call());
  if (result == 0)
    put(event_of(other != nullptr && ours != also ? disk_call::strange : kind,
                 from, to));
  return result;
}

} // namespace

namespace troupe::testing {

void begin_recording(const std::filesystem::path& root,
                     const std::filesystem::path& trace) {
  std::unique_lock guard{me().mutex};
  me().out = static_cast<int>(
    ::syscall(SYS_openat, AT_FDCWD, trace.c_str(),
              O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  me().files.clear();
  me().root = root.string() + "/";
}

void end_recording() {
  std::unique_lock guard{me().mutex};
  me().root.clear();
  me().files.clear();
  ::syscall(SYS_close, std::exchange(me().out, -1));
}

void mark_recording(const std::string& text) {
  std::unique_lock guard{me().mutex};
  if (me().root.empty())
    return;
  disk_event event;
  event.text = text;
  put(event);
}

void forbid_exchange(bool yes) {
  me().exchanges = !yes;
}

void break_reads(const std::filesystem::path& file) {
  me().broken = file.string();
}

} // namespace troupe::testing

// -- the calls ----------------------------------------------------------------

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  auto mode = makes(flags) ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  auto mode = makes(flags) ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  auto mode = makes(flags) ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open_at(folder, path, flags, mode);
}

int close(int handle) {
  std::unique_lock guard{me().mutex};
  forget(handle);
  return static_cast<int>(::syscall(SYS_close, handle));
}

ssize_t pread(int handle, void* to, size_t n, off_t at) {
  if (!me().broken.empty() && link_of(handle) == me().broken) {
    errno = EIO;
    return -1;
  }
  return ::syscall(SYS_pread64, handle, to, n, at);
}

ssize_t write(int handle, const void* from, size_t n) {
  if (me().root.empty())
    return ::syscall(SYS_write, handle, from, n);
  std::unique_lock guard{me().mutex};
  auto done = ::syscall(SYS_write, handle, from, n);
  put_write(handle, from, done, -1);
  return done;
}

ssize_t pwrite(int handle, const void* from, size_t n, off_t at) {
  std::unique_lock guard{me().mutex};
  auto done = ::syscall(SYS_pwrite64, handle, from, n, at);
  put_write(handle, from, done, at);
  return done;
}

ssize_t writev(int handle, const iovec* pieces, int count) {
  if (me().root.empty())
    return ::syscall(SYS_writev, handle, pieces, count);
  std::string all;
  for (int i = 0; i < count; ++i)
    all.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
  return write(handle, all.data(), all.size());
}

int ftruncate(int handle, off_t size) {
  auto event = event_of(disk_call::resize);
  event.offset = static_cast<uint64_t>(size);
  return on_file(handle, event, [&] {
    return static_cast<int>(::syscall(SYS_ftruncate, handle, size));
  });
}

int fsync(int handle) {
  return on_file(handle, event_of(disk_call::sync), [&] {
    return static_cast<int>(::syscall(SYS_fsync, handle));
  });
}

int fdatasync(int handle) {
  return on_file(handle, event_of(disk_call::sync), [&] {
    return static_cast<int>(::syscall(SYS_fdatasync, handle));
  });
}

int mkdir(const char* path, mode_t mode) {
  return on_names(AT_FDCWD, path, -1, nullptr, disk_call::make,
                  [&] { return ::syscall(SYS_mkdirat, AT_FDCWD, path, mode); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) {
  auto exchanges = (flags & 2u) != 0; // RENAME_EXCHANGE
  if (exchanges && !me().exchanges) {
    errno = EINVAL;
    return -1;
  }
  return on_names(from_folder, from, to_folder, to,
                  exchanges ? disk_call::exchange : disk_call::rename, [&] {
                    return ::syscall(SYS_renameat2, from_folder, from,
                                     to_folder, to, flags);
                  });
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  return renameat2(from_folder, from, to_folder, to, 0);
}

int rename(const char* from, const char* to) {
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlinkat(int folder, const char* path, int flags) {
  return on_names(folder, path, -1, nullptr,
                  (flags & AT_REMOVEDIR) != 0 ? disk_call::remove
                                              : disk_call::unlink,
                  [&] { return ::syscall(SYS_unlinkat, folder, path, flags); });
}

int unlink(const char* path) {
  return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char* path) {
  return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int remove(const char* path) {
  auto result = unlink(path);
  return result != 0 && (errno == EISDIR || errno == EPERM) ? rmdir(path)
                                                            : result;
}

int truncate(const char* path, off_t size) {
  return on_names(AT_FDCWD, path, -1, nullptr, disk_call::strange,
                  [&] { return ::syscall(SYS_truncate, path, size); });
}

int link(const char* from, const char* to) {
  return on_names(AT_FDCWD, from, AT_FDCWD, to, disk_call::strange, [&] {
    return ::syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
  });
}

int symlink(const char* from, const char* to) {
  return on_names(AT_FDCWD, to, -1, nullptr, disk_call::strange,
                  [&] { return ::syscall(SYS_symlinkat, from, AT_FDCWD, to); });
}

} // extern "C"
