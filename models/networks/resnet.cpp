#include "models/networks/resnet.hpp"

#include "models/networks/chain.hpp"
#include "models/networks/layers.hpp"
#include "models/networks/linear.hpp"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/utils.h>

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::models {

namespace {

namespace nn = torch::nn;
using block_kind = resnet_plan::block_kind;
using stem_kind = resnet_plan::stem_kind;
using shortcut_kind = resnet_plan::shortcut_kind;

struct block_shape {
  block_kind kind;
  shortcut_kind shortcut;
  int64_t in;
  int64_t width;
  int64_t stride;

  int64_t out() const {
    return kind == block_kind::bottleneck ? 4 * width : width;
  }
};

std::vector<conv_shape> convolutions_of(const block_shape& x) {
  if (x.kind == block_kind::basic) {
    return {{x.in, x.width, 3, x.stride, 1}, {x.width, x.width, 3, 1, 1}};
  }
  return {{x.in, x.width, 1},
          {x.width, x.width, 3, x.stride, 1},
          {x.width, x.out(), 1}};
}

/// Convolutions, each with its batch normalisation, around which the input
/// takes a shortcut.
class residual_block final : public nn::Module {
public:
  explicit residual_block(const block_shape& shape) : shape_(shape) {
    for (const auto& conv : convolutions_of(shape)) {
      auto number = std::to_string(layers_.size() + 1);
      auto& [layer, norm] =
        layers_.emplace_back(make_conv(conv), make_batch_norm(conv.out));
      register_module("conv" + number, layer);
      register_module("bn" + number, norm);
    }
    auto changes = shape.stride != 1 || shape.in != shape.out();
    if (changes && shape.shortcut == shortcut_kind::projection) {
      downsample_ = register_module(
        "downsample",
        nn::Sequential(make_conv({shape.in, shape.out(), 1, shape.stride}),
                       make_batch_norm(shape.out())));
    }
  }

  at::Tensor forward(const at::Tensor& inputs) {
    auto x = inputs;
    for (auto& [conv, norm] : layers_) {
      x = norm(conv(x));
      if (&conv != &layers_.back().first) {
        x = x.relu_();
      }
    }
    return x.add_(shortcut(inputs)).relu_();
  }

private:
  at::Tensor shortcut(const at::Tensor& inputs) {
    if (downsample_) {
      return downsample_->forward(inputs);
    }
    auto x = inputs;
    if (shape_.stride != 1) {
      x = x.slice(2, 0, std::nullopt, shape_.stride)
            .slice(3, 0, std::nullopt, shape_.stride);
    }
    auto more = shape_.out() - shape_.in;
    auto before = more / 2;
    return more == 0
             ? x
             : at::constant_pad_nd(x, {0, 0, 0, 0, before, more - before});
  }

  block_shape shape_;
  std::vector<std::pair<nn::Conv2d, nn::BatchNorm2d>> layers_;
  nn::Sequential downsample_{nullptr};
};

conv_shape stem_of(const resnet_plan& plan) {
  return plan.stem == stem_kind::large ? conv_shape{3, plan.width, 7, 2, 3}
                                       : conv_shape{3, plan.width, 3, 1, 1};
}

class resnet final : public chain_network {
public:
  resnet(const resnet_plan& plan, int64_t classes) : chain_network("resnet") {
    add_stem(plan);
    block_shape shape{plan.block, plan.shortcut, plan.width, plan.width, 1};
    for (size_t i = 0; i < plan.stages.size(); ++i) {
      auto name = "layer" + std::to_string(i + 1);
      auto stage = module().register_module(name, nn::ModuleList());
      for (int64_t k = 0; k < plan.stages[i]; ++k) {
        auto block = std::make_shared<residual_block>(shape);
        stage->push_back(block);
        add({name + "." + std::to_string(k)},
            [block](const at::Tensor& x, const pass_context&) {
              return block->forward(x);
            });
        shape.in = shape.out();
        shape.stride = 1;
      }
      shape.width *= 2;
      shape.stride = 2;
    }
    auto fc = make_linear(shape.in, classes);
    module().register_module("fc", fc);
    add({"fc"}, [fc](const at::Tensor& x, const pass_context& with) mutable {
      return linear(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1), fc,
                    with.places);
    });
  }

  weight_rule initial_weights() const override { return weight_rule::resnet; }

private:
  void add_stem(const resnet_plan& plan) {
    auto conv = make_conv(stem_of(plan));
    auto norm = make_batch_norm(plan.width);
    module().register_module("conv1", conv);
    module().register_module("bn1", norm);
    auto pools = plan.stem == stem_kind::large;
    add({"conv1", "bn1"}, [conv, norm, pools](const at::Tensor& inputs,
                                              const pass_context&) mutable {
      auto x = norm(conv(inputs)).relu_();
      return pools ? at::max_pool2d(x, 3, 2, 1) : x;
    });
  }
};

} // namespace

resnet_plan plan_of_resnet(int64_t depth, stem_kind stem) {
  resnet_plan out;
  out.stem = stem;
  out.block = depth >= 50 ? block_kind::bottleneck : block_kind::basic;
  switch (depth) {
  case 18:
    out.stages = {2, 2, 2, 2};
    break;
  case 34:
  case 50:
    out.stages = {3, 4, 6, 3};
    break;
  case 101:
    out.stages = {3, 4, 23, 3};
    break;
  case 152:
    out.stages = {3, 8, 36, 3};
    break;
  default:
    throw std::logic_error("there is no resnet" + std::to_string(depth));
  }
  return out;
}

resnet_plan plan_of_cifar_resnet(int64_t depth) {
  resnet_plan out;
  out.stem = stem_kind::small;
  out.shortcut = shortcut_kind::padding;
  out.width = 16;
  out.stages.assign(3, (depth - 2) / 6);
  return out;
}

std::shared_ptr<network> make_resnet(const resnet_plan& plan, int64_t classes) {
  return std::make_shared<resnet>(plan, classes);
}

} // namespace troupe::models
