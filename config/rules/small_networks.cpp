#include "config/rules/small_networks.hpp"

#include "config/schema/known_names.hpp"
#include "config/text/text.hpp"
#include "config/values/synthetic.hpp"

#include <algorithm>
#include <array>

namespace troupe::config {

namespace {

constexpr std::string_view network_key = "training.network";

/// With this the names in models/networks/registry.cpp end.
constexpr const char* small_ending = "_cifar";

} // namespace

bool has_small_images(const std::string& dataset) {
  constexpr std::array<int64_t, 3> small_image{3, small_side, small_side};
  if (is_synthetic(dataset))
    return parse_synthetic(dataset).shape == small_image;
  return image_of(dataset) == "3x32x32";
}

std::optional<std::string> small_form_of(const std::string& network,
                                         const std::string& dataset) {
  auto small = network + small_ending;
  if (!is_among(known_networks(), small) || !has_small_images(dataset))
    return std::nullopt;
  return small;
}

void choose_small_form(resolved& all, std::span<const given> of_run) {
  auto network = all.values.training.network;
  auto small = small_form_of(network, all.values.data.dataset);
  auto is_of_run = std::ranges::any_of(of_run, [&](const given& one) {
    return one.what->id() == network_key && one.text == network;
  });
  if (!small || is_of_run || !all.is_explicit(network_key) ||
      all.is_explicit("data.image-size"))
    return;
  all.set_value({&key_of(network_key), *small, all.origin_of(network_key)});
  all.notes.push_back(
    *small + ", which " + network + " means with the small images of " +
    all.values.data.dataset + "; --image-size " + std::to_string(small_side) +
    " asks for " + network + " itself");
}

} // namespace troupe::config
