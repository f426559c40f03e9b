#include "models/layout/layer_kind.hpp"

#include <torch/nn/module.h>

namespace troupe::models {

namespace {

/// The class alone, without "Impl" at its end.
std::string_view class_of(std::string_view name) {
  constexpr std::string_view ending = "Impl";
  name.remove_prefix(name.find_last_of(".:") + 1); // 0 when there is none
  if (name.ends_with(ending))
    name.remove_suffix(ending.size());
  return name;
}

/// "torch::nn::Conv2dImpl" of LibTorch,
/// "__torch__.torch.nn.modules.conv.Conv2d" of a script.
bool is_of_pytorch(std::string_view name) {
  return name.starts_with("torch::nn::") ||
         name.find("torch.nn.modules.") != std::string_view::npos;
}

} // namespace

std::optional<bool> normalises(const torch::nn::Module& layer) {
  const auto& name = layer.name();
  auto what = class_of(name);
  if (!is_of_pytorch(name) || what == "Module")
    return std::nullopt;
  return what.find("Norm") != std::string_view::npos;
}

} // namespace troupe::models
