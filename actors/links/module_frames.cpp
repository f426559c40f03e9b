#include "actors/links/module_frames.hpp"

#include <cstring>

namespace troupe {

namespace {

using transport::activation_parts;
using transport::path_error;

/// No header needs more.
constexpr size_t most_dimensions = 16;

activation_parts parts_of(const activations& tensor,
                          const payload& statistics) {
  return {tensor.sizes, tensor.channels_last, statistics.shape().count};
}

payload joined(const payload& numbers, const payload& statistics) {
  if (statistics.shape().count == 0)
    return numbers;
  payload_shape shape{statistics.shape().type,
                      numbers.shape().count + statistics.shape().count};
  payload_buffer out{shape};
  auto* target = out.bytes().data();
  for (const auto& part : {numbers.host_bytes(), statistics.host_bytes()}) {
    if (!part.empty())
      std::memcpy(target, part.data(), part.size());
    target += part.size();
  }
  return std::move(out).seal();
}

/// Divides a tensor into activations and statistics; returns the statistics.
payload divide(const activation_parts& parts, const payload& tensor,
               activations& out) {
  auto all = tensor ? tensor.shape().count : 0;
  if (parts.statistics > all || parts.sizes.size() > most_dimensions)
    throw path_error{"activations that do not fit their header"};
  out.sizes = parts.sizes;
  out.channels_last = parts.channels_last;
  auto numbers = all - parts.statistics;
  if (numbers > 0)
    out.numbers = tensor.part(0, numbers);
  return parts.statistics > 0 ? tensor.part(numbers, parts.statistics)
                              : payload{};
}

} // namespace

std::pair<transport::pass_header, payload> to_frame(const module_call& call) {
  return {{call.from, call.weights, call.segment, call.first, call.last,
           call.scale, parts_of(call.inputs, call.statistics)},
          joined(call.inputs.numbers, call.statistics)};
}

std::pair<transport::passed_header, payload>
to_frame(const module_answer& answer) {
  return {{answer.cancelled, answer.seconds, answer.overflow,
           parts_of(answer.outputs, answer.statistics)},
          joined(answer.outputs.numbers, answer.statistics)};
}

module_call to_call(const transport::pass_header& header,
                    const payload& tensor) {
  module_call out;
  out.from = header.from;
  out.weights = header.weights;
  out.segment = header.segment;
  out.first = header.first;
  out.last = header.last;
  out.scale = header.scale;
  out.statistics = divide(header.parts, tensor, out.inputs);
  return out;
}

module_answer to_answer(const transport::passed_header& header,
                        const payload& tensor) {
  module_answer out;
  out.cancelled = header.cancelled;
  out.seconds = header.seconds;
  out.overflow = header.overflow;
  out.statistics = divide(header.parts, tensor, out.outputs);
  return out;
}

} // namespace troupe
