// The header of a frame, behind a byte that says of which kind.

#include "tests/fuzz/headers.hpp"
#include "tests/fuzz/targets.hpp"

namespace troupe::fuzz {

using namespace transport;

bool header(bytes_view data) {
  auto kind = frame_kind{take_number<uint8_t>(data)};
  auto* from = reinterpret_cast<const caf::byte*>(data.data());
  caf::byte_buffer bytes(from, from + data.size());
  auto fits = false;
  with_header_of(kind, [&]<class Header>(Header found) {
    fits = taken<path_error>([&] { found = read_header<Header>(bytes); });
    if (!fits)
      return;
    auto written = write_header(found);
    require(write_header(read_header<Header>(written)) == written,
            "a header that was written can be read");
  });
  return fits;
}

} // namespace troupe::fuzz
