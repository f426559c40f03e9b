// Pieces of a tensor over the actor connection, as gateways and links put them
// together; and the credit that the other end grants for pieces of ours.
// Input: one byte for the size of the tensor, then chunks, one behind the
// other.

#include "messages/interfaces.hpp"
#include "messages/transport/chunked/chunked.hpp"
#include "tests/fuzz/targets.hpp"

#include <caf/binary_deserializer.hpp>

namespace troupe::fuzz {

using namespace transport;

namespace {

constexpr uint64_t piece = 64;
constexpr uint64_t window = 160;

bool put_together(chunk_receiver& into, bytes_view data) {
  caf::binary_deserializer source{
    nullptr, reinterpret_cast<const caf::byte*>(data.data()), data.size()};
  chunk next;
  while (!into.complete() && source.apply(next)) {
    auto before = into.received();
    auto fits = into.accept(next);
    require(into.received() == (fits ? before + next.size : before),
            "what was received is counted");
    if (!fits)
      return false;
  }
  return into.complete();
}

/// The bytes are what the other end says to have received.
void grant(const payload& tensor, bytes_view data) {
  chunk_sender from{transfer_id{1}, tensor, piece, window};
  uint64_t sent = 0, acknowledged = 0;
  while (!from.done()) {
    while (auto next = from.next()) {
      require(next->offset == sent && next->bytes().size() == next->size,
              "pieces follow each other");
      sent += next->size;
      require(sent - acknowledged <= window, "no more than the window is out");
    }
    if (data.empty())
      return;
    uint64_t said = take_number<uint16_t>(data);
    if (from.credit(said))
      acknowledged = said;
    require(acknowledged <= sent, "credit is for what was sent");
  }
}

} // namespace

bool chunks(bytes_view data) {
  init_messages();
  payload_shape shape{element_type::float32, take_number<uint8_t>(data)};
  chunk_receiver into{shape};
  if (!put_together(into, data))
    return false;
  auto whole = std::move(into).take_payload();
  require(whole.shape() == shape, "the tensor has its shape");
  grant(whole, data);
  return true;
}

} // namespace troupe::fuzz
