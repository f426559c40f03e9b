#include "messages/transport/compression/compression.hpp"

#include "messages/transport/wire/half.hpp"
#include "messages/transport/wire/socket.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace troupe::transport {

namespace {

using config::compression_kind;

/// How many numbers share one scale.
constexpr uint64_t block = 1024;
constexpr uint32_t infinite = 0x7f800000;

uint32_t magnitude(float x) {
  return std::bit_cast<uint32_t>(x) & 0x7fffffff;
}

template <class T>
T* numbers_at(std::byte* x) {
  return reinterpret_cast<T*>(x);
}

template <class T>
const T* numbers_at(const std::byte* x) {
  return reinterpret_cast<const T*>(x);
}

// -- 16 bits ------------------------------------------------------------------

template <class Convert>
bool pack_halves(std::span<const float> from, std::byte* to, Convert convert) {
  auto* out = numbers_at<uint16_t>(to);
  uint32_t largest = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    out[i] = convert(from[i]);
    largest = std::max(largest, magnitude(from[i]));
  }
  return largest < infinite;
}

template <class Convert>
void unpack_halves(const std::byte* from, std::span<float> to,
                   Convert convert) {
  const auto* in = numbers_at<uint16_t>(from);
  for (size_t i = 0; i < to.size(); ++i)
    to[i] = convert(in[i]);
}

// -- 8 bits -------------------------------------------------------------------

/// Rounds to the nearest whole number, ties to even. @pre |x| < 2^22
float nearest_whole(float x) {
  constexpr float shift = 12582912; // 1.5 * 2^23
  return (x + shift) - shift;
}

/// The scale of a block, or NaN if a number in it is not finite.
float scale_of(const float* x, uint64_t count) {
  uint32_t largest = 0;
  for (uint64_t i = 0; i < count; ++i)
    largest = std::max(largest, magnitude(x[i]));
  if (largest >= infinite)
    return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(largest) / 127;
}

bool pack_block(const float* gradient, const float* error_feedback, float* lost,
                uint64_t count, float& scale, int8_t* out) {
  float sum[block];
  for (uint64_t i = 0; i < count; ++i)
    sum[i] = error_feedback ? gradient[i] + error_feedback[i] : gradient[i];
  scale = scale_of(sum, count);
  auto factor = 1 / scale;
  if (!std::isfinite(factor)) { // All (nearly) zero, or not finite.
    scale = std::isnan(scale) ? scale : 0;
    factor = 0;
  }
  auto usable = !std::isnan(scale);
  for (uint64_t i = 0; i < count; ++i) {
    auto whole = usable ? nearest_whole(sum[i] * factor) : 0.0F;
    whole = std::min(127.0F, std::max(-127.0F, whole));
    out[i] = static_cast<int8_t>(whole);
    if (lost)
      lost[i] = sum[i] - whole * scale;
  }
  return usable;
}

uint64_t blocks_of(uint64_t numbers) {
  return (numbers + block - 1) / block;
}

bool pack_bytes(std::span<const float> from, const float* error_feedback,
                float* lost, std::byte* to) {
  auto* scales = numbers_at<float>(to);
  auto* out = numbers_at<int8_t>(to + 4 * blocks_of(from.size()));
  auto finite = true;
  for (uint64_t at = 0; at < from.size(); at += block) {
    auto count = std::min(block, from.size() - at);
    finite &= pack_block(
      from.data() + at, error_feedback ? error_feedback + at : nullptr,
      lost ? lost + at : nullptr, count, scales[at / block], out + at);
  }
  return finite;
}

void unpack_bytes(const std::byte* from, std::span<float> to) {
  const auto* scales = numbers_at<float>(from);
  const auto* in = numbers_at<int8_t>(from + 4 * blocks_of(to.size()));
  for (uint64_t at = 0; at < to.size(); at += block) {
    auto scale = scales[at / block];
    auto end = std::min<uint64_t>(at + block, to.size());
    for (auto i = at; i < end; ++i)
      to[i] = static_cast<float>(in[i]) * scale;
  }
}

// -- the largest alone --------------------------------------------------------

/// The `count` largest numbers are those of a magnitude above `from`, and
/// `equal` of those whose magnitude is `from`. Found with two histograms, of
/// the upper and of the lower bits.
struct threshold {
  uint32_t from = 0;
  uint64_t equal = 0;
};

/// Counts from the last bin and returns the one in which the `wanted` largest
/// numbers end. `wanted` becomes how many numbers of this bin are among them.
uint32_t bin_of(const std::vector<uint32_t>& bins, uint64_t& wanted) {
  auto bin = static_cast<uint32_t>(bins.size() - 1);
  while (bins[bin] < wanted)
    wanted -= bins[bin--];
  return bin;
}

threshold largest(std::span<const float> x, uint64_t count) {
  std::vector<uint32_t> upper(1u << 15), lower(1u << 16);
  for (auto each : x)
    ++upper[magnitude(each) >> 16];
  auto high = bin_of(upper, count);
  for (auto each : x)
    if (auto size = magnitude(each); size >> 16 == high)
      ++lower[size & 0xffff];
  auto low = bin_of(lower, count);
  return {high << 16 | low, count};
}

bool pack_largest(std::span<const float> gradient,
                  std::span<const float> error_feedback, std::span<float> lost,
                  uint64_t kept, std::byte* to) {
  auto numbers = gradient.size();
  for (size_t i = 0; i < numbers; ++i)
    lost[i] =
      error_feedback.empty() ? gradient[i] : gradient[i] + error_feedback[i];
  auto [from, equal] = largest(lost, kept);
  auto* positions = numbers_at<uint32_t>(to);
  auto* values = numbers_at<float>(to + 4 * kept);
  auto finite = true;
  for (size_t i = 0; i < numbers; ++i) {
    auto size = magnitude(lost[i]);
    if (size < from || (size == from && equal == 0))
      continue;
    equal -= size == from;
    finite &= size < infinite;
    *positions++ = static_cast<uint32_t>(i);
    *values++ = std::exchange(lost[i], 0.0F);
  }
  return finite;
}

void unpack_largest(const std::byte* from, uint64_t kept, std::span<float> to) {
  const auto* positions = numbers_at<uint32_t>(from);
  const auto* values = numbers_at<float>(from + 4 * kept);
  std::ranges::fill(to, 0.0F);
  for (uint64_t i = 0; i < kept; ++i) {
    if (positions[i] >= to.size() ||
        (i > 0 && positions[i] <= positions[i - 1]))
      throw path_error{"a compressed gradient has a position out of place"};
    to[positions[i]] = values[i];
  }
}

// -- sizes --------------------------------------------------------------------

uint64_t kept_of(const config::compression& how, uint64_t numbers) {
  auto wanted = std::ceil(how.share * static_cast<double>(numbers));
  return std::min(numbers, static_cast<uint64_t>(wanted));
}

uint64_t bytes_of(compression_kind kind, uint64_t numbers, uint64_t kept) {
  switch (kind) {
  case compression_kind::int8:
    return 4 * blocks_of(numbers) + numbers;
  case compression_kind::topk:
    return 8 * kept;
  default:
    return 2 * numbers;
  }
}

} // namespace

// The uncompressed rest comes first, so that everything is aligned.
gradient_codec::gradient_codec(const config::compression& how, uint64_t numbers,
                               uint64_t rest,
                               std::span<const uint64_t> fragments)
  : how_(how), numbers_(numbers), rest_(rest), kept_(kept_of(how, numbers)),
    compressed_bytes_(4 * rest + bytes_of(how.kind, numbers, kept_)) {
  for (auto count : fragments) {
    auto its = fragments_.size() + 1 == fragments.size() ? rest : 0;
    fragments_.emplace_back(how, count - its, its);
  }
}

std::vector<uint64_t> gradient_codec::numbers_of_fragments() const {
  std::vector<uint64_t> out;
  for (const auto& one : fragments_)
    out.push_back(one.numbers_);
  return out.empty() ? std::vector{numbers_} : out;
}

bool gradient_codec::pack(std::span<const float> gradient,
                          std::span<const float> error_feedback,
                          std::span<float> lost,
                          std::span<std::byte> to) const {
  auto front = gradient.first(numbers_);
  auto* body =
    std::ranges::copy(std::as_bytes(gradient.subspan(numbers_)), to.data()).out;
  switch (how_.kind) {
  case compression_kind::bf16:
    return pack_halves(front, body, to_bf16);
  case compression_kind::int8:
    return pack_bytes(front,
                      error_feedback.empty() ? nullptr : error_feedback.data(),
                      lost.empty() ? nullptr : lost.data(), body);
  case compression_kind::topk: {
    std::vector<float> own(lost.empty() ? numbers_ : 0);
    return pack_largest(front, error_feedback, lost.empty() ? own : lost, kept_,
                        body);
  }
  default:
    return pack_halves(front, body, to_half);
  }
}

void gradient_codec::unpack(std::span<const std::byte> from,
                            std::span<float> to) const {
  auto front = to.first(numbers_);
  std::memcpy(to.data() + numbers_, from.data(), 4 * rest_);
  const auto* body = from.data() + 4 * rest_;
  switch (how_.kind) {
  case compression_kind::bf16:
    return unpack_halves(body, front, from_bf16);
  case compression_kind::int8:
    return unpack_bytes(body, front);
  case compression_kind::topk:
    return unpack_largest(body, kept_, front);
  default:
    return unpack_halves(body, front, from_half);
  }
}

codec_ptr make_codec(const config::compression& how, uint64_t numbers,
                     uint64_t rest, std::span<const uint64_t> fragments) {
  if (how.kind == config::compression_kind::none)
    return nullptr;
  return std::make_shared<const gradient_codec>(how, numbers, rest, fragments);
}

// -- payloads -----------------------------------------------------------------

unpacker::unpacker(codec_ptr codec) : codec_(std::move(codec)) {
  if (codec_)
    memory_ = std::make_unique<payload_pool>(codec_->plain().bytes());
}

payload unpacker::unpack(const payload& tensor, uint32_t fragment) const {
  if (!codec_)
    return tensor;
  const auto& codec = codec_->of(fragment);
  if (codec.plain().count == 0 && tensor.shape() == codec.plain())
    return tensor;
  if (!tensor || tensor.shape() != codec.compressed())
    return payload{
      {element_type::byte, tensor.shape().bytes()}, nullptr, nullptr};
  auto memory = memory_->take_block();
  auto* data = memory.get();
  codec.unpack(tensor.host_bytes(),
               {reinterpret_cast<float*>(data), codec.plain().count});
  return payload{codec.plain(), std::move(memory), data};
}

} // namespace troupe::transport
