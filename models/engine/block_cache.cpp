#include "models/engine/block_cache.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace troupe::models {

namespace {

constexpr size_t page = 4096;

/// Eight sizes for each power of two, so that requests that differ a little
/// share blocks. The kernel gives memory to pages that are touched only: what a
/// request leaves of its block costs nothing until a larger one takes it.
size_t size_class(size_t bytes) {
  auto step = std::max(std::bit_floor(bytes) / 8, page);
  return (bytes + step - 1) / step * step;
}

/// How many times larger than the request the block for it may be.
constexpr size_t largest_surplus = 8;

void* map_pages(size_t size) {
  auto* out = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return out == MAP_FAILED ? nullptr : out;
}

} // namespace

block_cache::block_cache(size_t limit) : limit_(limit) {
  // nop
}

block_cache::~block_cache() {
  drop_oldest(0);
}

void* block_cache::take_block(size_t bytes) {
  auto asked = size_class(std::max(bytes, smallest));
  std::unique_lock guard{mutex_};
  ++requests_;
  asked_ += asked;
  peak_now_ = std::max(peak_now_, asked_);
  usage_.peak = std::max(usage_.peak, peak_now_);
  auto out = find(asked);
  if (out.at == nullptr) {
    asked_ -= asked;
    throw std::bad_alloc{};
  }
  usage_.used += out.size;
  taken_.emplace(out.at, taken_block{out.size, asked});
  return out.at;
}

/// A block of at least this size; null if the kernel has no more memory.
block_cache::block block_cache::find(size_t size) {
  if (auto out = take_kept(size, size); out.at != nullptr)
    return out;
  auto most = bound();
  auto held = usage_.used + size;
  if (held + usage_.kept > most) {
    if (auto out = take_kept(size, largest_surplus * size); out.at != nullptr)
      return out;
    drop_oldest(most > held ? most - held : 0);
  }
  auto* out = map_pages(size);
  if (out == nullptr) {
    drop_oldest(0);
    out = map_pages(size);
  }
  if (out != nullptr)
    ++usage_.mapped;
  return {out, size};
}

bool block_cache::give(const void* at) noexcept {
  if (reinterpret_cast<uintptr_t>(at) % page != 0)
    return false;
  std::unique_lock guard{mutex_};
  auto found = taken_.find(at);
  if (found == taken_.end())
    return false;
  auto [size, asked] = found->second;
  taken_.erase(found);
  asked_ -= asked;
  usage_.used -= size;
  usage_.kept += size;
  kept_[size].push_back({const_cast<void*>(at), requests_});
  if (usage_.used + usage_.kept > limit_)
    drop_oldest(limit_ > usage_.used ? limit_ - usage_.used : 0);
  return true;
}

void block_cache::limit(size_t bytes) {
  std::unique_lock guard{mutex_};
  limit_ = bytes;
}

void block_cache::drop_kept() {
  std::unique_lock guard{mutex_};
  drop_oldest(0);
}

void block_cache::end_period() {
  std::unique_lock guard{mutex_};
  for (auto& [size, blocks] : kept_)
    while (!blocks.empty() && blocks.front().since < period_began_)
      drop(blocks, size);
  std::erase_if(kept_, [](const auto& x) { return x.second.empty(); });
  if (period_began_ == requests_) // Nobody computes.
    drop_oldest(0);
  period_began_ = requests_;
  usage_.peak = std::max(std::exchange(peak_now_, asked_), asked_);
}

block_usage block_cache::usage() const {
  std::unique_lock guard{mutex_};
  return usage_;
}

size_t block_cache::bound() const {
  return std::min(limit_, usage_.peak + usage_.peak / 2);
}

/// The smallest kept block of a size from `least` to `most`; null if there is
/// none.
block_cache::block block_cache::take_kept(size_t least, size_t most) {
  for (auto i = kept_.lower_bound(least); i != kept_.end(); ++i) {
    auto& [size, blocks] = *i;
    if (size > most)
      break;
    if (blocks.empty())
      continue;
    auto* at = blocks.back().at; // The newest may be in a processor's cache.
    blocks.pop_back();
    usage_.kept -= size;
    return {at, size};
  }
  return {};
}

/// Gives kept blocks back, the oldest first, until at most so many bytes are
/// kept.
void block_cache::drop_oldest(size_t at_most) {
  while (usage_.kept > at_most) {
    auto oldest = kept_.end();
    for (auto i = kept_.begin(); i != kept_.end(); ++i)
      if (!i->second.empty() &&
          (oldest == kept_.end() ||
           i->second.front().since < oldest->second.front().since))
        oldest = i;
    drop(oldest->second, oldest->first);
  }
}

void block_cache::drop(kept_blocks& from, size_t size) {
  munmap(from.front().at, size);
  from.erase(from.begin());
  usage_.kept -= size;
}

} // namespace troupe::models
