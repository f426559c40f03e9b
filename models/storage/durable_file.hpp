#pragma once
// Files that survive a crash: functions that return only when their effect is
// on disk. All throw `run_error` with one line that names the file and the
// system's reason (disk full, no permission). Thread-safe as long as no two
// threads write the same path.

#include "config/text/input_file.hpp"
#include "models/storage/sha256.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::models {

/// A file that is written once, from front to back. Its content is durable when
/// `finish` has returned, its name when `sync_folder` of its folder has. One
/// owner.
class output_file {
public:
  enum class sum : uint8_t {
    none,
    sha256 ///< Of the content, which costs as much as writing it.
  };

  /// Creates the file, or empties it.
  explicit output_file(std::filesystem::path path, sum wanted = sum::none);

  /// Closes the file as it is.
  ~output_file();

  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  void write(std::span<const std::byte> bytes);

  void write(std::string_view text);

  /// Bytes written so far.
  uint64_t size() const noexcept { return size_; }

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Syncs and closes; returns the SHA-256 of the content if it was wanted,
  /// else zeros.
  sha256_digest finish();

private:
  std::filesystem::path path_;
  int handle_ = -1;
  uint64_t size_ = 0;
  std::optional<sha256> sum_;
};

/// The content of a file in memory, aligned for any number type.
class file_bytes {
public:
  file_bytes() = default;

  explicit file_bytes(size_t size)
    : data_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {
    // nop
  }

  std::span<std::byte> span() noexcept { return {data_.get(), size_}; }

  std::span<const std::byte> span() const noexcept {
    return {data_.get(), size_};
  }

  size_t size() const noexcept { return size_; }

private:
  std::unique_ptr<std::byte[]> data_;
  size_t size_ = 0;
};

/// Reads a regular file of at most `limit` bytes. The size is checked before
/// memory is allocated.
file_bytes read_file(const std::filesystem::path& path,
                     uint64_t limit = UINT64_MAX);

/// The same with the SHA-256 of the content, which another thread computes
/// while this one reads.
std::pair<file_bytes, sha256_digest>
read_and_hash(const std::filesystem::path& path, uint64_t limit = UINT64_MAX);

/// Opens a regular file for reading.
std::unique_ptr<const config::input_file>
open_file(const std::filesystem::path& path);

/// Reads all of `to`. @param where Names the file in error lines.
void read_exactly(const config::input_file& from, uint64_t position,
                  std::span<std::byte> to, const std::string& where);

/// SHA-256 of a file's content.
sha256_digest digest_of(const config::input_file& file,
                        const std::string& where);

/// The same, in hex.
std::string digest_of_file(const std::filesystem::path& path);

/// Makes creations, removals and renames in `folder` durable.
void sync_folder(const std::filesystem::path& folder);

/// Creates `folder` and missing folders above it; durable when this returns.
void make_folder(const std::filesystem::path& folder);

/// Makes the names of an existing folder and of all folders above it durable.
/// Folders above it that we may not open are skipped: we did not create them.
void sync_names(const std::filesystem::path& folder);

/// Renames a file or folder within its folder; durable when this returns.
void rename_durably(const std::filesystem::path& from,
                    const std::filesystem::path& to);

/// The first of `path`, `path`.2, `path`.3, ... that does not exist.
std::filesystem::path free_name(const std::filesystem::path& path);

/// Replaces `path` by what `fill` writes; readers, and a crash, see the old
/// file or the new one and nothing in between.
void replace_file(const std::filesystem::path& path,
                  const std::function<void(output_file&)>& fill);

/// The same for a text.
void replace_file(const std::filesystem::path& path, std::string_view text);

/// Removes the file if it exists; durable when this returns.
void remove_file(const std::filesystem::path& path);

} // namespace troupe::models
