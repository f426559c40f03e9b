#include "data/idx.hpp"

#include "tests/fuzz/target.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

using namespace troupe;

namespace {

/// The bytes as a file, which may be gzip.
void read_as_file(const uint8_t* data, size_t size) {
  auto fd = memfd_create("x", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size))
    std::abort();
  auto path = "/proc/self/fd/" + std::to_string(fd);
  try {
    data::read_idx_images(path, 1 << 20);
  } catch (const run_error&) {
    // Right.
  }
  try {
    data::read_idx_labels(path, 10, 1 << 20);
  } catch (const run_error&) {
    // Right.
  }
  close(fd);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const uint8_t> bytes{data, size};
  fuzz::expect_complaint_or_nothing(
    [&] { data::parse_idx_images(bytes, "x"); });
  fuzz::expect_complaint_or_nothing(
    [&] { data::parse_idx_labels(bytes, 10, "x"); });
  read_as_file(data, size);
  return 0;
}
