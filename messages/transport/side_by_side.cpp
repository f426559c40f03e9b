#include "messages/transport/side_by_side.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace troupe::transport {

namespace {

constexpr size_t page = 4096;

/// A few versions are alive at a time, and not in all combinations.
constexpr size_t most_windows = 16;

bool begins_a_page(const std::byte* data) {
  return reinterpret_cast<uintptr_t>(data) % page == 0;
}

/// Of all parts but the last the end has to be one, too.
bool fit(std::span<const payload> parts) {
  for (const auto& part : parts) {
    auto ends = &part == &parts.back() || part.bytes().size() % page == 0;
    if (!part || !ends || !begins_a_page(part.bytes().data()))
      return false;
  }
  return !parts.empty();
}

} // namespace

/// A range of addresses, first empty.
class side_by_side::window {
public:
  explicit window(size_t bytes) : bytes_(bytes) {
    auto* where = mmap(nullptr, bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (where != MAP_FAILED)
      data_ = static_cast<std::byte*>(where);
  }

  ~window() {
    if (data_ != nullptr)
      munmap(data_, bytes_);
  }

  window(const window&) = delete;
  window& operator=(const window&) = delete;

  const std::byte* data() const { return data_; }

  /// Shows pages that are mapped elsewhere. An old size of 0 asks for a second
  /// mapping of the same pages, which the kernel refuses unless they are
  /// shared (mremap(2)).
  bool show(size_t at, std::span<const std::byte> pages) {
    auto size = (pages.size() + page - 1) / page * page;
    auto* from = const_cast<std::byte*>(pages.data());
    return data_ != nullptr &&
           mremap(from, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, data_ + at) !=
             MAP_FAILED;
  }

private:
  std::byte* data_ = nullptr;
  size_t bytes_;
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
    where.push_back(part.bytes().data());
    bytes += part.bytes().size();
  }
  if (bytes != whole.bytes())
    return std::nullopt;
  auto view = find(where);
  if (!view) {
    auto made = std::make_shared<window>((bytes + page - 1) / page * page);
    size_t at = 0;
    for (const auto& part : parts) {
      if (!made->show(at, part.bytes()))
        return std::nullopt;
      at += part.bytes().size();
    }
    if (windows_.size() == most_windows)
      windows_.pop_front();
    windows_.emplace_back(std::move(where), made);
    view = std::move(made);
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
