#pragma once
// What the name of a network means for images of 32x32. ps_pytorch has `VGG11`
// and `ResNet18` only in their variants for such images; here these are
// `vgg11_cifar` and `resnet18_cifar`, and the names without an ending are
// torchvision's networks for large images. Pure functions; any thread.

#include "config/sources/resolve.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace troupe::config {

/// Height and width of small images.
inline constexpr uint32_t small_side = 32;

/// Whether the samples of this data set, a name or a declaration, are colour
/// images of that size.
bool has_small_images(const std::string& dataset);

/// The variant of a network for such images, if the data set has them and there
/// is one.
std::optional<std::string> small_form_of(const std::string& network,
                                         const std::string& dataset);

/// Puts the variant in the place of a network that was given for this start,
/// and notes that in a line. The name keeps its meaning if the image size is
/// given, too, or if the run that goes on has that network. To be called for
/// the node that decides; others take the name's meaning from it.
/// @param of_run What is taken from an earlier run.
void choose_small_form(resolved& all, std::span<const given> of_run);

} // namespace troupe::config
