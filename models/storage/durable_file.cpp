#include "models/storage/durable_file.hpp"

#include "config/text/failure.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <system_error>
#include <utility>
#include <vector>

namespace troupe::models {

namespace {

namespace fs = std::filesystem;

// The system writes at most 2 GiB at once; small pieces also keep what was just
// hashed in the cache.
constexpr size_t write_piece = 1u << 20;

// Long enough to be worth a thread.
constexpr size_t read_piece = 8u << 20;

[[noreturn]] void fail(const char* verb, const fs::path& path, int code) {
  throw run_error(std::string{"cannot "} + verb + " " + path.string() + ": " +
                  std::system_category().message(code));
}

/// Closes a file handle at the end of a scope.
struct handle_guard {
  int handle;

  ~handle_guard() {
    if (handle >= 0)
      ::close(handle);
  }
};

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path{"."};
}

/// Calls `then` with each piece that has been read, and at the end, even after
/// a failure, with an empty one: from then on it must not use the bytes.
template <class Then>
file_bytes read_in_pieces(const fs::path& path, uint64_t limit, Then then) {
  auto file = open_file(path);
  if (file->size() > limit)
    throw run_error("cannot read " + path.string() + ": it has " +
                    std::to_string(file->size()) + " bytes, at most " +
                    std::to_string(limit) + " are expected");
  file_bytes result{static_cast<size_t>(file->size())};
  auto all = result.span();
  try {
    for (size_t done = 0; done < all.size();) {
      auto piece = all.subspan(done, std::min(all.size() - done, read_piece));
      read_exactly(*file, done, piece, path.string());
      done += piece.size();
      then(piece);
    }
  } catch (...) {
    then({});
    throw;
  }
  then({});
  return result;
}

} // namespace

// -- output_file --------------------------------------------------------------

output_file::output_file(fs::path path, sum wanted) : path_(std::move(path)) {
  if (wanted == sum::sha256)
    sum_.emplace();
  handle_ =
    ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (handle_ < 0)
    fail("create", path_, errno);
}

output_file::~output_file() {
  if (handle_ >= 0)
    ::close(handle_);
}

void output_file::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    auto piece = bytes.first(std::min(bytes.size(), write_piece));
    auto written = ::write(handle_, piece.data(), piece.size());
    if (written < 0) {
      if (errno == EINTR)
        continue;
      fail("write", path_, errno);
    }
    auto n = static_cast<size_t>(written);
    if (sum_)
      sum_->update(bytes.first(n));
    size_ += n;
    bytes = bytes.subspan(n);
  }
}

void output_file::write(std::string_view text) {
  write(std::as_bytes(std::span{text.data(), text.size()}));
}

sha256_digest output_file::finish() {
  if (::fsync(handle_) != 0)
    fail("sync", path_, errno);
  if (::close(std::exchange(handle_, -1)) != 0)
    fail("write", path_, errno);
  return sum_ ? sum_->finish() : sha256_digest{};
}

// -- functions ----------------------------------------------------------------

std::unique_ptr<const config::input_file> open_file(const fs::path& path) try {
  return std::make_unique<const config::input_file>(path);
} catch (const config::unreadable& why) {
  throw run_error("cannot read " + path.string() + ": " + why.what());
}

void read_exactly(const config::input_file& from, uint64_t position,
                  std::span<std::byte> to, const std::string& where) try {
  if (from.read(position, to) < to.size())
    throw run_error("cannot read " + where + ": it became shorter meanwhile");
} catch (const config::unreadable& why) {
  throw run_error("cannot read " + where + ": " + why.what());
}

file_bytes read_file(const fs::path& path, uint64_t limit) {
  return read_in_pieces(path, limit, [](std::span<const std::byte>) {});
}

std::pair<file_bytes, sha256_digest> read_and_hash(const fs::path& path,
                                                   uint64_t limit) {
  sha256 sum;
  std::future<void> before;
  auto bytes =
    read_in_pieces(path, limit, [&](std::span<const std::byte> piece) {
      if (before.valid())
        before.get();
      if (!piece.empty())
        before =
          std::async(std::launch::async, [&sum, piece] { sum.update(piece); });
    });
  return {std::move(bytes), sum.finish()};
}

void sync_folder(const fs::path& folder) {
  handle_guard file{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (file.handle < 0)
    fail("sync", folder, errno);
  // Some network file systems have no sync for folders.
  if (::fsync(file.handle) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail("sync", folder, errno);
}

void make_folder(const fs::path& folder) {
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored))
    return;
  make_folder(folder.parent_path());
  if (::mkdir(folder.c_str(), 0777) == 0)
    return sync_folder(folder_of(folder));
  auto code = errno;
  if (code == EEXIST && fs::is_directory(folder, ignored))
    return; // Made by somebody else meanwhile.
  fail("create", folder, code == EEXIST ? ENOTDIR : code);
}

void sync_names(const fs::path& folder) {
  std::error_code error;
  auto at = fs::absolute(folder, error).lexically_normal();
  if (!at.has_filename())
    at = at.parent_path();
  while (at.has_relative_path()) {
    at = at.parent_path();
    if (::access(at.c_str(), R_OK) == 0)
      sync_folder(at);
  }
}

void rename_durably(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail("rename", from, errno);
  sync_folder(folder_of(to));
}

fs::path free_name(const fs::path& path) {
  auto result = path;
  std::error_code error;
  for (int i = 2; fs::exists(fs::symlink_status(result, error)); ++i)
    result = path.string() + "." + std::to_string(i);
  return result;
}

void replace_file(const fs::path& path,
                  const std::function<void(output_file&)>& fill) {
  auto temporary = path;
  temporary += ".tmp";
  try {
    output_file out{temporary};
    fill(out);
    out.finish();
    if (::rename(temporary.c_str(), path.c_str()) != 0)
      fail("write", path, errno);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  sync_folder(folder_of(path));
}

void replace_file(const fs::path& path, std::string_view text) {
  replace_file(path, [&](output_file& out) { out.write(text); });
}

void remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) == 0)
    sync_folder(folder_of(path));
  else if (errno != ENOENT)
    fail("remove", path, errno);
}

sha256_digest digest_of(const config::input_file& file,
                        const std::string& where) {
  constexpr size_t most = 1u << 20; // Still in the cache when it is hashed.
  sha256 sum;
  std::vector<std::byte> buffer(std::min<uint64_t>(most, file.size()));
  for (uint64_t at = 0; at < file.size();) {
    std::span piece{buffer.data(),
                    std::min<uint64_t>(buffer.size(), file.size() - at)};
    read_exactly(file, at, piece, where);
    sum.update(piece);
    at += piece.size();
  }
  return sum.finish();
}

std::string digest_of_file(const fs::path& path) {
  return to_hex(digest_of(*open_file(path), path.string()));
}

} // namespace troupe::models
