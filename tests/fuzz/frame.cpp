// Frames as they come in over the socket of a path: the first byte says which
// path and which end of it, the others arrive. With shared memory the file of a
// region comes along with the first of them.

#include "messages/transport/compression/compression.hpp"
#include "messages/transport/shm/shm_carrier.hpp"
#include "messages/transport/stream/stream_carrier.hpp"
#include "tests/fuzz/headers.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/sockets.hpp"

#include <algorithm>

namespace troupe::fuzz {

using namespace transport;

namespace {

constexpr payload_shape weights{element_type::float32, 24};

/// Bits of the first byte.
enum frame_option : uint8_t {
  shared = 1,
  overlap = 2,
  early = 4,
  is_compressed = 8
};

path_terms terms_with(uint8_t options, const codec_ptr& codec) {
  path_terms out{codec ? codec->compressed() : weights, 3};
  out.whole = {element_type::float32, 32};
  out.most_activations = 40;
  if ((options & overlap) != 0)
    out.overlap = config::overlap_rule::on;
  out.in_use_early = (options & early) != 0;
  return out;
}

path_ptr open_path(uint8_t options, socket line, const path_terms& terms) {
  if ((options & shared) == 0)
    return make_path<stream_carrier>(std::move(line), terms);
  return make_path<shm_carrier>(std::move(line), terms,
                                std::make_shared<shared_memory>(), false);
}

/// Sends all bytes of the other end, and closes its connection.
void speak(socket& line, bytes_view data, int passed) {
  iovec all[] = {{const_cast<uint8_t*>(data.data()), data.size()}};
  std::span<iovec> parts{all};
  line.send(parts, true, passed);
  line.shutdown();
}

void look_at(const payload& tensor) {
  if (!tensor)
    return;
  volatile uint8_t sum = 0;
  for (auto each : tensor.host_bytes())
    sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(each));
}

bool read_frames(path& way, const unpacker& unpack) {
  std::vector<payload> held;
  while (auto next = way.receive()) {
    with_header_of(next->kind, [&]<class Header>(const Header&) {
      read_header<Header>(next->header);
    });
    look_at(next->tensor);
    look_at(unpack.unpack(next->tensor));
    // Some tensors are still in use when the next one comes.
    held.push_back(next->tensor);
    if (held.size() > 2)
      held.erase(held.begin());
  }
  return true;
}

} // namespace

bool frame(bytes_view data) {
  static shared_memory memory;
  static const auto block = memory.take_block(4096);
  static const auto region = memory.find(block.get(), 4096)->region;
  auto options = take_number<uint8_t>(data);
  auto codec = (options & is_compressed) == 0
                 ? nullptr
                 : make_codec({config::compression_kind::int8}, 16, 8);
  auto terms = terms_with(options, codec);
  auto [here, there] = test::socket_pair();
  if (!data.empty())
    speak(there, data, region->file.get());
  else
    there.shutdown();
  auto way = open_path(options, std::move(here), terms);
  return taken<path_error>([&] { read_frames(*way, unpacker{codec}); });
}

} // namespace troupe::fuzz
