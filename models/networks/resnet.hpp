#pragma once
// Residual networks (He et al., "Deep residual learning for image recognition",
// CVPR 2016), with the names, the order and the initial distributions of
// torchvision's: a stem, stages of blocks that halve the image, the mean over
// the image, one fully connected layer. Made through the registry; the result
// is one replica, for one thread.

#include "models/network.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::models {

struct resnet_plan {
  enum class block_kind : uint8_t {
    basic,     ///< Two 3x3 convolutions.
    bottleneck ///< 1x1, 3x3 (which has the stride), 1x1 of four times the
               ///< width.
  };
  enum class stem_kind : uint8_t {
    large, ///< 7x7 with stride 2 and a pool: for images of 224x224.
    small  ///< 3x3: for images of 32x32.
  };
  enum class shortcut_kind : uint8_t {
    projection, ///< A 1x1 convolution where the shape changes.
    padding     ///< Option A of the paper: every other pixel, zero channels.
  };

  block_kind block = block_kind::basic;
  stem_kind stem = stem_kind::large;
  shortcut_kind shortcut = shortcut_kind::projection;
  int64_t width = 64;          ///< Of the stem and the first stage.
  std::vector<int64_t> stages; ///< Blocks per stage; each doubles the width.
};

/// resnet18, 34, 50, 101, 152 by their depth, for images of 224x224 or 32x32.
resnet_plan plan_of_resnet(int64_t depth, resnet_plan::stem_kind stem);

/// The networks for CIFAR of section 4.2 of the paper: three stages of 16, 32
/// and 64 channels, depth 6n + 2.
resnet_plan plan_of_cifar_resnet(int64_t depth);

std::shared_ptr<network> make_resnet(const resnet_plan& plan, int64_t classes);

} // namespace troupe::models
