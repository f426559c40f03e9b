#include "actors/log_files/appending.hpp"

#include "config/text/failure.hpp"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace troupe::recording {

void fail(const char* verb, const std::filesystem::path& path) {
  throw run_error(std::string{"cannot "} + verb + " " + path.string() + ": " +
                  std::system_category().message(errno));
}

void append_whole(int handle, std::string_view text, uint64_t size,
                  const std::filesystem::path& path) {
  while (!text.empty()) {
    auto n = ::write(handle, text.data(), text.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0) {
      auto code = errno;
      [[maybe_unused]] auto cut = ::ftruncate(handle, static_cast<off_t>(size));
      errno = code;
      fail("write", path);
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
}

} // namespace troupe::recording
