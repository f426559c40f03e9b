#pragma once
// Makes layers with allocated but unfilled memory. LibTorch's constructors
// would draw weights, 140 million for the largest network, which `initialise`
// or binding replaces anyway. Used by the networks' constructors; any thread.

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace troupe::models {

struct conv_shape {
  int64_t in;
  int64_t out;
  int64_t kernel;
  int64_t stride = 1;
  int64_t padding = 0;
  bool bias = false;
};

torch::nn::Conv2d make_conv(const conv_shape& shape);

torch::nn::Linear make_linear(int64_t in, int64_t out);

/// With weight 1 and bias 0, running mean 0 and running variance 1.
torch::nn::BatchNorm2d make_batch_norm(int64_t channels);

} // namespace troupe::models
