#include "models/flat_layout.hpp"

#include "config/failure.hpp"
#include "models/sha256.hpp"

#include <ATen/ops/empty.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include <set>
#include <span>
#include <utility>

namespace troupe::models {

namespace {

config::scalar_type from_aten(const std::string& name, at::ScalarType type) {
  switch (type) {
  case at::kFloat:
    return config::scalar_type::float32;
  case at::kDouble:
    return config::scalar_type::float64;
  default:
    throw run_error("parameter " + name + " is " + c10::toString(type) +
                    ", neither float32 nor float64");
  }
}

uint64_t count_of(const std::string& name, const std::vector<int64_t>& shape) {
  int64_t result = 1;
  for (auto extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(result, extent, &result)) {
      throw run_error("parameter " + name + " has an impossible shape");
    }
  }
  return static_cast<uint64_t>(result);
}

/// The parameters of `module`, which must be those of `layout`.
std::vector<at::Tensor> matching_parameters(const torch::nn::Module& module,
                                            const flat_layout& layout) {
  auto parameters = module.parameters();
  if (parameters.size() != layout.slots().size()) {
    throw run_error("a network of " + std::to_string(parameters.size()) +
                    " parameters does not fit a layout of " +
                    std::to_string(layout.slots().size()));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& slot = layout.slots()[i];
    if (static_cast<uint64_t>(parameters[i].numel()) != slot.count ||
        parameters[i].scalar_type() != to_aten(layout.dtype())) {
      throw run_error("parameter " + slot.name +
                      " differs from the layout in size or dtype");
    }
  }
  return parameters;
}

void require_fit(const flat_layout& layout, const at::Tensor& flat) {
  if (!layout.fits(flat)) {
    throw run_error("a buffer does not fit the layout of " +
                    std::to_string(layout.count()) + " parameters");
  }
}

} // namespace

flat_layout flat_layout::from(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> parameters;
  auto dtype = config::scalar_type::float32;
  for (const auto& item : module.named_parameters()) {
    auto found = from_aten(item.key(), item.value().scalar_type());
    if (!parameters.empty() && found != dtype) {
      throw run_error("parameter " + item.key() +
                      " differs in dtype from those before it");
    }
    dtype = found;
    parameters.emplace_back(item.key(), item.value().sizes().vec());
  }
  return from(parameters, dtype);
}

flat_layout flat_layout::from(
  const std::vector<std::pair<std::string, std::vector<int64_t>>>& parameters,
  config::scalar_type dtype) {
  flat_layout result;
  result.dtype_ = dtype;
  std::set<std::string> names;
  for (const auto& [name, shape] : parameters) {
    if (!names.insert(name).second) {
      throw run_error("there are two parameters of name " + name);
    }
    auto count = count_of(name, shape);
    result.slots_.push_back({name, shape, result.count_, count});
    constexpr uint64_t most = uint64_t{1} << 56;
    if (count > most || result.count_ + count > most) {
      throw run_error("parameter " + name + " has an impossible shape");
    }
    result.count_ += count;
  }
  return result;
}

at::Tensor flat_layout::view(const at::Tensor& flat,
                             const parameter_slot& slot) const {
  return flat
    .narrow(0, static_cast<int64_t>(slot.offset),
            static_cast<int64_t>(slot.count))
    .view(slot.shape);
}

bool flat_layout::fits(const at::Tensor& flat) const {
  return flat.defined() && flat.dim() == 1 && flat.is_contiguous() &&
         flat.device().is_cpu() && flat.scalar_type() == to_aten(dtype_) &&
         static_cast<uint64_t>(flat.numel()) == count_;
}

void bind_parameters(torch::nn::Module& module, const flat_layout& layout,
                     const at::Tensor& flat) {
  require_fit(layout, flat);
  auto parameters = matching_parameters(module, layout);
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].set_data(layout.view(flat, layout.slots()[i]));
  }
}

void bind_gradients(torch::nn::Module& module, const flat_layout& layout,
                    const at::Tensor& flat) {
  require_fit(layout, flat);
  auto parameters = matching_parameters(module, layout);
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].mutable_grad() = layout.view(flat, layout.slots()[i]);
  }
}

at::Tensor gather(const torch::nn::Module& module, const flat_layout& layout) {
  torch::NoGradGuard no_grad;
  auto parameters = matching_parameters(module, layout);
  auto flat =
    at::empty({static_cast<int64_t>(layout.count())}, to_aten(layout.dtype()));
  for (size_t i = 0; i < parameters.size(); ++i) {
    layout.view(flat, layout.slots()[i]).copy_(parameters[i]);
  }
  return flat;
}

std::string weights_sha256(const at::Tensor& flat, const flat_layout& layout) {
  require_fit(layout, flat);
  auto weights = flat.to(at::kFloat);
  std::span values{weights.const_data_ptr<float>(), layout.count()};
  return to_hex(sha256_of(std::as_bytes(values)));
}

} // namespace troupe::models
