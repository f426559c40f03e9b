#include "models/networks/linear.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <torch/autograd.h>

namespace troupe::models {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// An undefined tensor if the parameter has no place.
struct wanted_places {
  at::Tensor weight;
  at::Tensor bias;
};

struct linear_function : torch::autograd::Function<linear_function> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& inputs,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const wanted_places& places) {
    context->save_for_backward({inputs, weight});
    context->saved_data["weight"] = places.weight;
    context->saved_data["bias"] = places.bias;
    return at::addmm(bias, inputs, weight.t());
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& outputs) {
    auto saved = context->get_saved_variables();
    const auto& of_scores = outputs[0];
    variable_list result(4); // None of the places.
    if (context->needs_input_grad(0)) {
      result[0] = of_scores.mm(saved[1]);
    }
    result[1] = context->saved_data["weight"].toTensor();
    if (result[1].defined()) {
      at::mm_out(result[1], of_scores.t(), saved[0]);
    } else {
      result[1] = of_scores.t().mm(saved[0]);
    }
    result[2] = context->saved_data["bias"].toTensor();
    if (result[2].defined()) {
      at::sum_out(result[2], of_scores, 0);
    } else {
      result[2] = of_scores.sum(0);
    }
    return result;
  }
};

} // namespace

at::Tensor linear(const at::Tensor& inputs, torch::nn::Linear& layer,
                  const gradient_places& places) {
  if (places.empty()) {
    return layer(inputs);
  }
  wanted_places wanted{places.of(layer->weight), places.of(layer->bias)};
  return linear_function::apply(inputs, layer->weight, layer->bias, wanted);
}

} // namespace troupe::models
