#include "models/storage/tensor_draft.hpp"

#include "config/text/failure.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

namespace troupe::models {

namespace {

run_error trouble(const std::string& what, const std::filesystem::path& path) {
  return run_error("cannot " + what + " " + path.string() + ": " +
                   std::system_category().message(errno));
}

/// No two drafts of a process have one name.
std::filesystem::path temporary_in(const std::filesystem::path& dir) {
  static std::atomic<uint64_t> drafts{0};
  return dir / (std::string{tensor_draft::prefix} + std::to_string(++drafts));
}

} // namespace

tensor_draft::tensor_draft(const std::filesystem::path& dir,
                           std::span<const named_tensor> tensors,
                           const tensor_metadata& metadata)
  : path_(temporary_in(dir)) {
  make_folder(dir);
  auto head = safetensors_head(tensors, metadata, path_.string());
  head_ = head.size();
  size_ = head_;
  for (const auto& one : tensors)
    size_ += bytes_of(one);
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

void tensor_draft::put(uint64_t first, std::span<const std::byte> bytes) {
  auto at = head_ + first;
  if (at > size_ || bytes.size() > size_ - at)
    throw run_error(path_.string() + ": a piece is beyond its end");
  while (!bytes.empty()) {
    auto done =
      pwrite(handle_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      throw trouble("write", path_);
    at += static_cast<uint64_t>(done);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void tensor_draft::read(uint64_t first, uint64_t count,
                        const block_sink& to) const {
  read_from(head_ + first, count, to);
}

void tensor_draft::read_from(uint64_t at, uint64_t count,
                             const block_sink& to) const {
  std::vector<std::byte> buffer(std::min<uint64_t>(block, count));
  for (auto end = at + count; at < end;) {
    auto most = std::min<uint64_t>(buffer.size(), end - at);
    // Whole numbers: a short read in between is completed.
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

auto tensor_draft::finish(const std::filesystem::path& path) -> content {
  sha256 sum;
  read_from(0, size_,
            [&](std::span<const std::byte> bytes) { sum.update(bytes); });
  if (fsync(handle_) != 0)
    throw trouble("sync", path_);
  if (rename(path_.c_str(), path.c_str()) != 0)
    throw trouble("rename", path_);
  named_ = true;
  return {size_, sum.finish()};
}

} // namespace troupe::models
