// A message of the actor connection: the ids of its types, then its content.

#include "messages/interfaces.hpp"
#include "tests/fuzz/targets.hpp"

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

namespace troupe::fuzz {

namespace {

std::optional<caf::message> read_message(caf::span<const caf::byte> bytes) {
  caf::binary_deserializer source{nullptr, bytes};
  caf::message out;
  if (!source.apply(out))
    return std::nullopt;
  return out;
}

} // namespace

bool message(bytes_view data) {
  init_messages();
  auto found = read_message(
    {reinterpret_cast<const caf::byte*>(data.data()), data.size()});
  if (!found)
    return false;
  for (size_t i = 0; i < found->size(); ++i)
    if (found->match_element<caf::error>(i))
      require_one_line(troupe::text_of(found->get_as<caf::error>(i)));
  caf::byte_buffer copy;
  caf::binary_serializer sink{nullptr, copy};
  require(sink.apply(*found), "what was read can be written");
  require(read_message(copy).has_value(), "what was written can be read");
  return true;
}

} // namespace troupe::fuzz
