#include "models/storage/tensor_draft.hpp"

#include "config/text/failure.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace troupe::models {

namespace {

run_error trouble(const std::string& action,
                  const std::filesystem::path& path) {
  return run_error("cannot " + action + " " + path.string() + ": " +
                   std::system_category().message(errno));
}

std::filesystem::path temporary_in(const std::filesystem::path& dir) {
  std::random_device source;
  return dir / (std::string{tensor_draft::prefix} + std::to_string(source()) +
                "-" + std::to_string(source()));
}

/// @param size Of the file.
void write_in_place(int handle, const std::filesystem::path& path,
                    uint64_t size, uint64_t at,
                    std::span<const std::byte> bytes) {
  if (at > size || bytes.size() > size - at)
    throw run_error(path.string() + ": a piece is beyond its end");
  while (!bytes.empty()) {
    auto done =
      pwrite(handle, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      throw trouble("write", path);
    at += static_cast<uint64_t>(done);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

} // namespace

tensor_draft::tensor_draft(const std::filesystem::path& dir,
                           std::span<const named_tensor> tensors,
                           const tensor_metadata& metadata)
  : path_(temporary_in(dir)) {
  make_folder(dir);
  auto head = safetensors_head(tensors, metadata, path_.string());
  size_ = head.size();
  for (const auto* one : file_order(tensors)) {
    positions_.emplace(one->name, size_);
    size_ += bytes_of(*one);
  }
  handle_ = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (handle_ < 0)
    throw trouble("create", path_);
  try {
    // Space is taken now, so that a full disk is known before the parts come.
    if (auto error = posix_fallocate(handle_, 0, static_cast<off_t>(size_))) {
      errno = error;
      throw trouble("write", path_);
    }
    auto text = std::as_bytes(std::span{head});
    if (pwrite(handle_, text.data(), text.size(), 0) !=
        static_cast<ssize_t>(text.size()))
      throw trouble("write", path_);
  } catch (...) {
    close(handle_);
    unlink(path_.c_str());
    throw;
  }
}

tensor_draft::~tensor_draft() {
  close(handle_);
  if (!named_)
    unlink(path_.c_str());
}

void tensor_draft::put(uint64_t at, std::span<const std::byte> bytes) {
  write_in_place(handle_, path_, size_, at, bytes);
}

void tensor_draft::read(uint64_t at, uint64_t count,
                        const block_sink& to) const {
  std::vector<std::byte> buffer(std::min<uint64_t>(block, count));
  for (auto end = at + count; at < end;) {
    auto most = std::min<uint64_t>(buffer.size(), end - at);
    // Completes a short read, so that each block holds whole numbers.
    size_t got = 0;
    while (got < most) {
      auto done = pread(handle_, buffer.data() + got, most - got,
                        static_cast<off_t>(at + got));
      if (done < 0 && errno == EINTR)
        continue;
      if (done <= 0)
        throw trouble("read", path_);
      got += static_cast<size_t>(done);
    }
    to(std::span{buffer.data(), got});
    at += got;
  }
}

void tensor_draft::reopen() {
  auto next = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (next < 0)
    throw trouble("open", path_);
  close(std::exchange(handle_, next));
}

auto tensor_draft::finish(const std::filesystem::path& path) -> content {
  sha256 sum;
  read(0, size_, [&](std::span<const std::byte> bytes) { sum.update(bytes); });
  if (fsync(handle_) != 0)
    throw trouble("sync", path_);
  if (rename(path_.c_str(), path.c_str()) != 0)
    throw trouble("rename", path_);
  named_ = true;
  return {size_, sum.finish()};
}

draft_piece::draft_piece(const std::filesystem::path& draft) : path_(draft) {
  if (!path_.filename().string().starts_with(tensor_draft::prefix))
    throw run_error(path_.string() + ": not the name of a draft");
  handle_ = open(path_.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (handle_ < 0)
    throw trouble("open", path_);
  struct stat found {};
  if (fstat(handle_, &found) != 0 || !S_ISREG(found.st_mode)) {
    close(handle_);
    throw run_error(path_.string() + ": not a file");
  }
  size_ = static_cast<uint64_t>(found.st_size);
}

draft_piece::~draft_piece() {
  close(handle_);
}

void draft_piece::put(uint64_t at, std::span<const std::byte> bytes) {
  write_in_place(handle_, path_, size_, at, bytes);
}

void draft_piece::sync() {
  if (fdatasync(handle_) != 0)
    throw trouble("sync", path_);
}

} // namespace troupe::models
