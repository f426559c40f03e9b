#pragma once
// A safetensors file whose bytes arrive in pieces, in any order, and are never
// in memory all together: one of a checkpoint whose shards live in processes of
// their own.
//
// Errors are `run_error`s: one line with the file and the reason. Threads may
// put different bytes at the same time; all else has one owner.

#include "models/storage/safetensors.hpp"
#include "models/storage/sha256.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace troupe::models {

class tensor_draft {
public:
  using block_sink = std::function<void(std::span<const std::byte>)>;

  /// Creates the file, at its full size, under a temporary name that
  /// `remove_leftovers` knows and nobody guesses: a process that finds a file
  /// of this name has found this one.
  /// @param dir Created if absent.
  /// @param tensors Their bytes are not looked at.
  tensor_draft(const std::filesystem::path& dir,
               std::span<const named_tensor> tensors,
               const tensor_metadata& metadata = {});

  /// Removes the file, unless it has got its name.
  ~tensor_draft();

  tensor_draft(const tensor_draft&) = delete;
  tensor_draft& operator=(const tensor_draft&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Where in the file this tensor begins. Throws `std::out_of_range` when
  /// there is none of that name.
  uint64_t position(const std::string& name) const {
    return positions_.at(name);
  }

  /// Writes bytes. @param at Where in the file, which does not grow.
  void put(uint64_t at, std::span<const std::byte> bytes);

  /// Reads `count` bytes from `at` on, a block of at most `block` bytes at a
  /// time.
  void read(uint64_t at, uint64_t count, const block_sink& to) const;

  /// Opens the file again. To be called once other processes have written their
  /// pieces: a network file system shows them only to who opens it after that.
  void reopen();

  /// What the manifest of a checkpoint says of a file.
  struct content {
    uint64_t size = 0;
    sha256_digest digest{};
  };

  /// Makes the content durable and gives the file its name, in an existing
  /// folder of the same file system.
  content finish(const std::filesystem::path& path);

  static constexpr size_t block = 1u << 20;

  /// What temporary names begin with.
  static constexpr std::string_view prefix = ".tmp-draft-";

private:
  std::filesystem::path path_;
  int handle_ = -1;
  uint64_t size_ = 0; ///< Of the file.
  std::map<std::string, uint64_t> positions_;
  bool named_ = false;
};

/// A piece of a draft that another process has made, written in place.
class draft_piece {
public:
  /// Opens the draft. Throws when there is none of that name here, and for the
  /// name of any other file.
  explicit draft_piece(const std::filesystem::path& draft);

  ~draft_piece();

  draft_piece(const draft_piece&) = delete;
  draft_piece& operator=(const draft_piece&) = delete;

  /// Writes bytes. @param at Where in the file, which does not grow.
  void put(uint64_t at, std::span<const std::byte> bytes);

  /// Makes durable what was written.
  void sync();

private:
  std::filesystem::path path_;
  int handle_ = -1;
  uint64_t size_ = 0; ///< Of the file.
};

} // namespace troupe::models
