// A compressed gradient, after three bytes: how it is compressed, of how many
// numbers, and how many uncompressed ones follow.

#include "messages/payload.hpp"
#include "messages/transport/compression/compression.hpp"
#include "messages/transport/wire/socket.hpp"
#include "tests/fuzz/targets.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace troupe::fuzz {

using namespace transport;

namespace {

codec_ptr take_codec(bytes_view& data) {
  auto kind = take_number<uint8_t>(data) % 4;
  uint64_t numbers = 16 * take_number<uint8_t>(data) + 1;
  auto rest = take_number<uint8_t>(data);
  config::compression how{config::compression_kind{static_cast<uint8_t>(
    static_cast<int>(config::compression_kind::none) + 1 + kind)}};
  how.share = 0.25;
  return transport::make_codec(how, numbers, rest);
}

/// All bytes that are there, and zeros where some lack.
payload payload_of(payload_shape shape, bytes_view data) {
  payload_buffer out{shape};
  auto to = out.bytes();
  auto count = std::min(to.size(), data.size());
  std::memset(to.data(), 0, to.size());
  std::copy_n(data.data(), count, reinterpret_cast<uint8_t*>(to.data()));
  return std::move(out).seal();
}

} // namespace

bool compressed(bytes_view data) {
  auto codec = take_codec(data);
  unpacker unpack{codec};
  auto fits = taken<path_error>([&] {
    auto whole = unpack.unpack(payload_of(codec->compressed(), data));
    require(whole && whole.shape() == codec->plain(), "a gradient is whole");
    std::vector<float> numbers(codec->plain().count);
    std::memcpy(numbers.data(), whole.host_bytes().data(),
                whole.host_bytes().size());
    std::vector<std::byte> again(codec->compressed().bytes());
    codec->pack(numbers, {}, {}, again);
  });
  if (data.size() != codec->compressed().count)
    require(!unpack.unpack(payload_of({element_type::byte, data.size()}, data)),
            "a gradient of another size has no numbers");
  return fits;
}

} // namespace troupe::fuzz
