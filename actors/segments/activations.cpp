#include "actors/segments/activations.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "config/text/failure.hpp"

#include <functional>
#include <numeric>

namespace troupe {

activations to_activations(const at::Tensor& x) {
  if (!x.defined())
    return {};
  activations out;
  out.sizes = x.sizes().vec();
  auto numbers = x.detach();
  out.channels_last = !numbers.is_contiguous() &&
                      numbers.is_contiguous(at::MemoryFormat::ChannelsLast);
  if (out.channels_last)
    numbers = numbers.permute({0, 2, 3, 1});
  out.numbers = to_payload(numbers.contiguous().view({-1}));
  return out;
}

at::Tensor to_tensor(const activations& x) {
  if (!x.numbers)
    return {};
  uint64_t count = 1;
  for (auto size : x.sizes)
    if (size < 0 ||
        __builtin_mul_overflow(count, static_cast<uint64_t>(size), &count))
      throw run_error("activations of an impossible shape");
  if (count != x.numbers.shape().count ||
      (x.channels_last && x.sizes.size() != 4))
    throw run_error("activations do not have the shape that they name");
  auto flat = to_tensor(x.numbers);
  if (!x.channels_last)
    return flat.view(x.sizes);
  return flat.view({x.sizes[0], x.sizes[2], x.sizes[3], x.sizes[1]})
    .permute({0, 3, 1, 2});
}

} // namespace troupe
