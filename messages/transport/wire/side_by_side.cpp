#include "messages/transport/wire/side_by_side.hpp"

#include "messages/payload_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace troupe::transport {

namespace {

/// A few versions are alive at a time, and not in all combinations.
constexpr size_t most_windows = 16;

bool begins_a_page(const std::byte* data) {
  return reinterpret_cast<uintptr_t>(data) % memory_page == 0;
}

/// Whether each part begins at a page boundary, and all but the last end at
/// one.
bool fit(std::span<const payload> parts) {
  for (const auto& part : parts) {
    auto ends =
      &part == &parts.back() || part.host_bytes().size() % memory_page == 0;
    if (!part || !ends || !begins_a_page(part.host_bytes().data()))
      return false;
  }
  return !parts.empty();
}

} // namespace

/// A range of addresses, unmapped at the end.
class mapped_range {
public:
  mapped_range() = default;

  mapped_range(void* where, size_t bytes)
    : data_(where == MAP_FAILED ? nullptr : static_cast<std::byte*>(where)),
      bytes_(bytes) {
    // nop
  }

  mapped_range(mapped_range&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {
    // nop
  }

  mapped_range& operator=(mapped_range&&) = delete;

  ~mapped_range() {
    if (data_ != nullptr)
      munmap(data_, bytes_);
  }

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }

  /// The mapping has moved, or its content is unknown.
  void forget() { data_ = nullptr; }

private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

namespace {

/// A second mapping of the same pages, where the kernel likes. mremap(2) makes
/// one when the old size is 0, and refuses unless the pages are shared.
mapped_range second_mapping(std::span<const std::byte> pages) {
  auto bytes = whole_pages(pages.size());
  auto* from = const_cast<std::byte*>(pages.data());
  return {mremap(from, 0, bytes, MREMAP_MAYMOVE), bytes};
}

} // namespace

/// The parts mapped next to each other; `data` is null if that failed.
class side_by_side::window {
public:
  explicit window(std::span<const payload> parts) : space_(show(parts)) {
    // nop
  }

  const std::byte* data() const { return space_.data(); }

private:
  static mapped_range show(std::span<const payload> parts) {
    std::vector<mapped_range> all;
    size_t bytes = 0;
    for (const auto& part : parts) {
      all.push_back(second_mapping(part.host_bytes()));
      if (all.back().data() == nullptr)
        return {};
      bytes += all.back().size();
    }
    mapped_range space{mmap(nullptr, bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
                       bytes};
    auto* at = space.data();
    for (auto& part : all) {
      if (at == nullptr || !move(part, at)) {
        space.forget();
        return {};
      }
      at += part.size();
    }
    return space;
  }

  /// The previous mapping is removed first, so if this fails, those addresses
  /// may already be used by something else.
  static bool move(mapped_range& part, std::byte* to) {
    auto moved = mremap(part.data(), part.size(), part.size(),
                        MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
    if (moved)
      part.forget();
    return moved;
  }

  mapped_range space_;
};

auto side_by_side::find(const addresses& where) const -> window_ptr {
  auto found = std::ranges::find(windows_, where,
                                 &std::pair<addresses, window_ptr>::first);
  return found == windows_.end() ? nullptr : found->second;
}

std::optional<payload> side_by_side::join(const payload_shape& whole,
                                          std::span<const payload> parts) {
  if (!fit(parts))
    return std::nullopt;
  addresses where;
  size_t bytes = 0;
  for (const auto& part : parts) {
    where.push_back(part.host_bytes().data());
    bytes += part.host_bytes().size();
  }
  if (bytes != whole.bytes())
    return std::nullopt;
  auto view = find(where);
  if (!view) {
    view = std::make_shared<const window>(parts);
    if (view->data() == nullptr)
      return std::nullopt;
    if (windows_.size() == most_windows)
      windows_.pop_front();
    windows_.emplace_back(std::move(where), view);
  }
  const auto* data = view->data();
  struct holder {
    window_ptr view;
    std::vector<payload> parts;
  };
  auto owner = std::make_shared<const holder>(
    holder{std::move(view), {parts.begin(), parts.end()}});
  return payload{whole, std::move(owner), data};
}

} // namespace troupe::transport
