#include "models/networks/layers.hpp"

#include <ATen/ops/empty.h>

namespace troupe::models {

namespace {

namespace nn = torch::nn;

/// Gives a layer that was made with a single weight its real size.
template <class Layer>
void resize(Layer& layer, at::IntArrayRef weight) {
  layer->weight.set_data(at::empty(weight));
  if (layer->bias.defined())
    layer->bias.set_data(at::empty({weight[0]}));
}

} // namespace

nn::Conv2d make_conv(const conv_shape& shape) {
  nn::Conv2d out{nn::Conv2dOptions(1, 1, 1)
                   .stride(shape.stride)
                   .padding(shape.padding)
                   .bias(shape.bias)};
  out->options.in_channels(shape.in).out_channels(shape.out).kernel_size(
    {shape.kernel, shape.kernel});
  resize(out, {shape.out, shape.in, shape.kernel, shape.kernel});
  return out;
}

nn::Linear make_linear(int64_t in, int64_t out) {
  nn::Linear result{1, 1};
  result->options.in_features(in).out_features(out);
  resize(result, {out, in});
  return result;
}

nn::BatchNorm2d make_batch_norm(int64_t channels) {
  return nn::BatchNorm2d{channels};
}

} // namespace troupe::models
