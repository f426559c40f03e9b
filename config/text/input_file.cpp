#include "config/text/input_file.hpp"

#include "config/text/failure.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace troupe::config {

namespace {

// The system reads less than 2 GiB at once.
constexpr size_t read_piece = 1u << 30;

[[noreturn]] void fail(int code) {
  throw unreadable(std::system_category().message(code));
}

} // namespace

input_file::input_file(const std::filesystem::path& path)
  : handle_(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  if (handle_ < 0)
    fail(errno);
  struct stat about {};
  auto code = ::fstat(handle_, &about) == 0 ? 0 : errno;
  if (code == 0 && S_ISREG(about.st_mode)) {
    size_ = static_cast<uint64_t>(about.st_size);
    return;
  }
  ::close(handle_);
  if (code != 0)
    fail(code);
  throw unreadable("it is not a regular file");
}

input_file::~input_file() {
  if (handle_ >= 0)
    ::close(handle_);
}

size_t input_file::read(uint64_t position, std::span<std::byte> to) const {
  size_t done = 0;
  while (done < to.size()) {
    auto n =
      ::pread(handle_, to.data() + done, std::min(to.size() - done, read_piece),
              static_cast<off_t>(position + done));
    if (n < 0 && errno != EINTR)
      fail(errno);
    if (n == 0)
      break;
    done += n > 0 ? static_cast<size_t>(n) : 0;
  }
  return done;
}

int input_file::release() noexcept {
  return std::exchange(handle_, -1);
}

std::string read_text(const std::filesystem::path& path, uint64_t most) {
  input_file in{path};
  std::string out(static_cast<size_t>(std::min(in.size(), most)), '\0');
  out.resize(in.read(0, std::as_writable_bytes(std::span{out})));
  return out;
}

void refuse_file(const std::filesystem::path& path, const unreadable& why) {
  throw run_error(path.string() + ": cannot be read: " + why.what());
}

} // namespace troupe::config
