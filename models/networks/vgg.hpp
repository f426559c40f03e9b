#pragma once
// VGG (Simonyan and Zisserman, "Very deep convolutional networks for
// large-scale image recognition", 2014), with the names, the order and the
// initial distributions of torchvision's: 3x3 convolutions and pools, then
// three fully connected layers with dropout. Made through the registry; the
// result is one replica, for one thread.

#include "models/network.hpp"

#include <cstdint>
#include <memory>

namespace troupe::models {

struct vgg_plan {
  int64_t depth = 11;      ///< 11, 13, 16 or 19.
  bool normalised = false; ///< With batch normalisation.
  /// As in ps_pytorch, for images of 32x32: hidden layers of 512 instead of
  /// 4096, and dropout before each of them.
  bool small = false;
};

std::shared_ptr<network> make_vgg(const vgg_plan& plan, int64_t classes);

} // namespace troupe::models
