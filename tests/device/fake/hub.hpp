#pragma once
// What the sources of the fake device share: its memory, and the order of all
// that uses it.

#include "tests/device/fake/order.hpp"

#include <c10/core/Device.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace troupe::testing::fake {

constexpr size_t page = 4096;

/// Of memory that two processes use, at its end: by process, first whoever took
/// it, whether its host has not waited for uses, and for writing ones.
struct open_uses {
  std::atomic<bool> any[2];
  std::atomic<bool> writing[2];
};

/// The user's addresses come first; operations use those at `behind`.
struct held_memory {
  std::byte* user = nullptr;
  std::byte* behind = nullptr;
  size_t bytes = 0; ///< Whole pages.
  size_t asked = 0;
  bool pinned = false;
  c10::DeviceIndex device = 0;
  stream_number stream = 0;         ///< That it was taken for.
  std::set<stream_number> others{}; ///< That use it, too.
  clock awaited{}; ///< What must be over before it is used again.
  access_history history{};
  std::vector<int>
    protections{}; ///< Of the pages of pinned memory, for the host.
  int most = PROT_READ | PROT_WRITE; ///< What these may be.
  bool registered = false;           ///< Pinned, and mapped by somebody else.
  int file = -1;                     ///< Of memory that another process opens.
  open_uses* uses = nullptr;         ///< Of memory that two processes use.
  int side = 0;                      ///< Which of the two is this one.
};

inline size_t whole_pages(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + page - 1) / page * page;
}

/// Throws std::bad_alloc.
std::byte* map(size_t bytes, int protection, int file = -1);

class late_work;

/// Late work, and its place in its stream.
struct pending {
  moment when;
  std::shared_ptr<late_work> work;
};

/// One for the process; whoever uses it holds its lock.
struct hub {
  std::mutex mutex;
  order times;
  std::map<const std::byte*, std::unique_ptr<held_memory>> blocks;
  std::map<std::pair<stream_number, size_t>, std::vector<held_memory*>> kept;
  /// Memory of the host, or of another process as well, whose uses are open.
  std::set<held_memory*> in_flight;
  std::vector<pending> late; ///< Not over when somebody looked last.
  size_t used = 0;
  uint64_t draws = 0;

  held_memory* at(const void* address) {
    const auto* x = static_cast<const std::byte*>(address);
    auto found = blocks.upper_bound(x);
    if (found == blocks.begin())
      return nullptr;
    auto* out = std::prev(found)->second.get();
    return x < out->user + out->bytes ? out : nullptr;
  }

  /// Forbids the host the pages that are in use as far as it knows: all use
  /// where they are written, writing where they are read. A page of which only
  /// a part is in use stays open, since the rest may have been waited for.
  void protect(held_memory& x);

  /// Tells the other process of the uses that are open.
  void tell(held_memory& x, const std::vector<access_history::access>& open);

  void note_in_flight(held_memory& x, bool is) {
    if (is)
      in_flight.insert(&x);
    else
      in_flight.erase(&x);
  }

  bool is_late(const clock& seen) const {
    return std::ranges::any_of(
      late, [&](const pending& x) { return is_before(x.when, seen); });
  }

  void host_waits_for(const clock& seen) {
    times.host_waits_for(seen);
    auto all = in_flight;
    for (auto* x : all)
      protect(*x);
  }
};

/// Counts so many bytes as used, if they are within FAKE_CUDA_MEMORY.
bool take_bytes(size_t bytes);

/// Lives until the process ends: memory comes back late.
hub& device();

} // namespace troupe::testing::fake
