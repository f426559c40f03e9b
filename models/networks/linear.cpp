#include "models/networks/linear.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <torch/autograd.h>

#include <optional>

namespace troupe::models {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct wanted_places {
  at::Tensor weight;
  at::Tensor bias; ///< Undefined if it has none.
};

struct linear_function : torch::autograd::Function<linear_function> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& inputs,
                            const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            const wanted_places& places) {
    context->save_for_backward({inputs, weight});
    context->saved_data["weight"] = places.weight;
    context->saved_data["bias"] = places.bias;
    context->saved_data["has_bias"] = bias.has_value();
    return bias ? at::addmm(*bias, inputs, weight.t()) : inputs.mm(weight.t());
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& outputs) {
    auto saved = context->get_saved_variables();
    const auto& of_scores = outputs[0];
    variable_list result(4); // None for the places.
    if (context->needs_input_grad(0)) {
      result[0] = of_scores.mm(saved[1]);
    }
    result[1] = context->saved_data["weight"].toTensor();
    at::mm_out(result[1], of_scores.t(), saved[0]);
    result[2] = context->saved_data["bias"].toTensor();
    if (result[2].defined())
      at::sum_out(result[2], of_scores, 0);
    else if (context->saved_data["has_bias"].toBool() &&
             context->needs_input_grad(2))
      result[2] = of_scores.sum(0);
    return result;
  }
};

} // namespace

at::Tensor linear(const at::Tensor& inputs, const at::Tensor& weight,
                  const at::Tensor& bias, const gradient_places& places) {
  wanted_places wanted{places.take_place(weight), {}};
  if (!wanted.weight.defined() || inputs.dim() < 2)
    return at::linear(inputs, weight, bias);
  std::optional<at::Tensor> given;
  if (bias.defined()) {
    wanted.bias = places.take_place(bias);
    given = bias;
  }
  auto rows = inputs.flatten(0, -2);
  auto out = linear_function::apply(rows, weight, given, wanted);
  auto shape = inputs.sizes().vec();
  shape.back() = weight.size(0);
  return out.view(shape);
}

at::Tensor linear(const at::Tensor& inputs, torch::nn::Linear& layer,
                  const gradient_places& places) {
  return linear(inputs, layer->weight, layer->bias, places);
}

} // namespace troupe::models
