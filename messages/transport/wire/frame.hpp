#pragma once
// The unit that the two ends of a link exchange. On a tensor path: a head of
// fixed size, a short header and perhaps a tensor. Heads are little-endian on
// every machine; headers use CAF's serialisation. The format of the bytes:
// docs/design/0005-tensor-paths.md. Plain values.

#include "messages/transport/wire/socket.hpp"
#include "messages/types.hpp"

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/byte_buffer.hpp>

#include <array>

namespace troupe::transport {

/// Wire format: append only, never renumber.
enum class frame_kind : uint8_t {
  push = 1,    ///< push_header, a gradient
  pull = 2,    ///< pull_header
  watch = 3,   ///< version
  score = 4,   ///< score
  release = 5, ///< release_header, weights
  due = 6,     ///< watch_header, weights
  refusal = 7, ///< refusal
  let_go = 8,  ///< no header: only releases tensors
  piece = 9,   ///< part of the gradient of a push to come
  meet = 10,   ///< nothing: this end wants to use NCCL
  call = 11,   ///< two NCCL ids: for gradients and for weights

  // 12 to 15, 17 and 18 were those of sums over NCCL until release 0.2.

  offer = 16,    ///< push_header, and the shape of a gradient: its numbers come
                 ///< with the others', as a sum
  gathered = 19, ///< release_header, and the shape of weights, which come
                 ///< gathered from all

  // Of remote modules; their tensors have any size up to that agreed:

  forward = 20,  ///< pass_header, activations
  backward = 21, ///< pass_header, gradients of activations
  passed = 22,   ///< passed_header, the outcome
  cancel = 23,   ///< lease_id: close its context
  read = 24,     ///< context_part: send these numbers
};

/// Whether the tensors of such frames are activations, or their gradients.
constexpr bool has_activations(frame_kind kind) {
  return kind == frame_kind::forward || kind == frame_kind::backward ||
         kind == frame_kind::passed;
}

/// Whether such frames come with numbers. For others the shape is enough.
constexpr bool brings_tensor(frame_kind kind) {
  return kind == frame_kind::push || kind == frame_kind::release ||
         kind == frame_kind::due || has_activations(kind);
}

/// How the tensor of a frame is transferred.
enum class carriage : uint8_t {
  none = 0,       ///< There is none, or the frame only tells its shape.
  follows = 1,    ///< Its bytes follow the header.
  region = 2,     ///< It lies in a region that the receiver knows.
  new_region = 3, ///< It lies in a new region, whose file is passed.
  ahead = 4,      ///< It was sent before, in pieces.
  device = 5,     ///< It is sent over NCCL.
};

/// Larger values are refused before memory is allocated for them.
inline constexpr uint32_t max_header_bytes = 64u << 10;
inline constexpr uint32_t max_let_gos = 1024;

struct frame_head {
  static constexpr size_t size = 48;

  frame_kind kind = frame_kind::let_go;
  carriage carried = carriage::none;
  payload_shape shape;
  transfer_id request; ///< Numbers the requests of one link.
  uint32_t header_bytes = 0;
  uint32_t let_gos = 0; ///< Numbers that follow the head.
  uint64_t region = 0;  ///< Of a tensor sent early: its number.
  /// Where the tensor begins in the region, or a piece in its tensor. For a
  /// tensor that follows: it is sent from this byte to its end, then from its
  /// beginning.
  uint64_t offset = 0;

  bool operator==(const frame_head&) const = default;
};

using head_bytes = std::array<std::byte, frame_head::size>;

head_bytes encode(const frame_head& head);

/// Throws `path_error` for bytes that are no valid head.
frame_head decode(const head_bytes& bytes);

/// A frame, as the ends of a link see it.
struct frame {
  frame_kind kind = frame_kind::let_go;
  transfer_id request;
  caf::byte_buffer header;
  payload tensor;
};

/// Numbers in the byte order of the wire.
void put_number(std::byte* target, uint64_t x);
uint64_t get_number(const std::byte* from);

/// How the tensor of a frame is divided: activations, and behind them running
/// statistics.
struct activation_parts {
  std::vector<int64_t> sizes;
  bool channels_last = false;
  uint64_t statistics = 0; ///< Elements.
};

template <class Inspector>
bool inspect(Inspector& f, activation_parts& x) {
  return f.object(x).fields(f.field("sizes", x.sizes),
                            f.field("channels_last", x.channels_last),
                            f.field("statistics", x.statistics));
}

/// The header of a call to a remote module.
struct pass_header {
  lease from;
  version weights;
  uint32_t segment = 0;
  uint64_t first = 0;
  bool last = true;
  real scale;
  activation_parts parts;
};

template <class Inspector>
bool inspect(Inspector& f, pass_header& x) {
  return f.object(x).fields(
    f.field("from", x.from), f.field("weights", x.weights),
    f.field("segment", x.segment), f.field("first", x.first),
    f.field("last", x.last), f.field("scale", x.scale),
    f.field("parts", x.parts));
}

/// The header of its answer.
struct passed_header {
  bool cancelled = false;
  real seconds;
  bool overflow = false;
  activation_parts parts;
};

template <class Inspector>
bool inspect(Inspector& f, passed_header& x) {
  return f.object(x).fields(
    f.field("cancelled", x.cancelled), f.field("seconds", x.seconds),
    f.field("overflow", x.overflow), f.field("parts", x.parts));
}

/// The header of a frame that answers a request with an error.
struct refusal {
  errc code = errc::failed;
  std::string text;
};

template <class Inspector>
bool inspect(Inspector& f, refusal& x) {
  return f.object(x).fields(f.field("code", x.code), f.field("text", x.text));
}

template <class T>
caf::byte_buffer write_header(const T& x) {
  caf::byte_buffer out;
  caf::binary_serializer sink{nullptr, out};
  if (!sink.apply(x))
    throw path_error{"a header cannot be written"};
  return out;
}

/// Throws `path_error` unless the bytes are exactly one such header.
template <class T>
T read_header(const caf::byte_buffer& bytes) {
  T out{};
  caf::binary_deserializer source{nullptr, bytes};
  if (!source.apply(out) || source.remaining() != 0)
    throw path_error{"a header cannot be read"};
  return out;
}

} // namespace troupe::transport
