#include "messages/transport/wire/frame.hpp"

namespace troupe::transport {

namespace {

constexpr uint64_t frame_mark = 0x46505254; // "TRPF"

/// Most elements whose bytes can be counted.
constexpr uint64_t max_count = UINT64_MAX / 16;

void put(std::byte*& target, uint64_t x, int bytes) {
  for (; bytes > 0; --bytes, x >>= 8)
    *target++ = static_cast<std::byte>(x);
}

uint64_t get(const std::byte*& from, int bytes) {
  uint64_t out = 0;
  for (int i = 0; i < bytes; ++i)
    out |= static_cast<uint64_t>(*from++) << (8 * i);
  return out;
}

uint8_t number_up_to(uint64_t x, uint64_t low, uint64_t high,
                     const char* name) {
  if (x < low || x > high)
    throw path_error{std::string{"a frame with an unknown "} + name};
  return static_cast<uint8_t>(x);
}

uint32_t at_most(uint64_t x, uint32_t limit, const char* name) {
  if (x > limit)
    throw path_error{std::string{"a frame with "} + std::to_string(x) + " " +
                     name + ", more than the " + std::to_string(limit) +
                     " allowed"};
  return static_cast<uint32_t>(x);
}

} // namespace

void put_number(std::byte* target, uint64_t x) {
  put(target, x, 8);
}

uint64_t get_number(const std::byte* from) {
  return get(from, 8);
}

head_bytes encode(const frame_head& head) {
  head_bytes out;
  auto* at = out.data();
  put(at, frame_mark, 4);
  put(at, static_cast<uint8_t>(head.kind), 1);
  put(at, static_cast<uint8_t>(head.carried), 1);
  put(at, static_cast<uint8_t>(head.shape.type), 1);
  put(at, 0, 1);
  put(at, head.shape.count, 8);
  put(at, head.request.value, 8);
  put(at, head.header_bytes, 4);
  put(at, head.let_gos, 4);
  put(at, head.region, 8);
  put(at, head.offset, 8);
  return out;
}

frame_head decode(const head_bytes& bytes) {
  const auto* at = bytes.data();
  if (get(at, 4) != frame_mark)
    throw path_error{"what arrives is no frame"};
  frame_head out;
  auto kind = number_up_to(get(at, 1), 1, 24, "kind");
  auto gone = kind > 11 && kind < 20 && kind != 16 && kind != 19;
  if (gone)
    number_up_to(kind, 1, 11, "kind");
  out.kind = frame_kind{kind};
  out.carried = carriage{number_up_to(get(at, 1), 0, 5, "carriage")};
  out.shape.type = element_type{number_up_to(get(at, 1), 1, 3, "element type")};
  number_up_to(get(at, 1), 0, 0, "filling");
  out.shape.count = get(at, 8);
  if (out.shape.count > max_count)
    throw path_error{"a frame with a tensor larger than any"};
  out.request = transfer_id{get(at, 8)};
  out.header_bytes = at_most(get(at, 4), max_header_bytes, "bytes of header");
  out.let_gos = at_most(get(at, 4), max_let_gos, "numbers");
  out.region = get(at, 8);
  out.offset = get(at, 8);
  return out;
}

} // namespace troupe::transport
