#include "messages/transport/wire/descriptor_limit.hpp"

#include <dirent.h>
#include <sys/resource.h>

#include <charconv>
#include <cstdint>
#include <string_view>

namespace troupe::transport {

struct descriptor_limit::folder {
  ~folder() {
    if (entries != nullptr)
      closedir(entries);
  }

  DIR* entries = opendir("/proc/self/fd");
};

descriptor_limit::descriptor_limit() : open_files_(std::make_unique<folder>()) {
  // nop
}

descriptor_limit::~descriptor_limit() = default;

size_t descriptor_limit::most() const {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return SIZE_MAX;
  return static_cast<size_t>(limit.rlim_cur);
}

// A limit that was lowered leaves files open whose numbers lie above it; they
// take no place below.
size_t descriptor_limit::left() const {
  auto limit = most();
  if (limit == SIZE_MAX || open_files_->entries == nullptr)
    return SIZE_MAX;
  size_t used = 0;
  rewinddir(open_files_->entries);
  while (const auto* entry = readdir(open_files_->entries)) {
    std::string_view name{entry->d_name};
    size_t number = 0;
    auto [end, failed] =
      std::from_chars(name.data(), name.data() + name.size(), number);
    used += failed == std::errc{} && number < limit;
  }
  return limit - used;
}

} // namespace troupe::transport
