#include "models/networks/registry.hpp"

#include "config/schema/known_names.hpp"
#include "config/text/failure.hpp"
#include "config/text/registered.hpp"
#include "config/values/external.hpp"
#include "config/values/script.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/networks/described.hpp"
#include "models/networks/lenet.hpp"
#include "models/networks/mnist_net.hpp"
#include "models/networks/registration.hpp"
#include "models/networks/resnet.hpp"
#include "models/networks/script.hpp"
#include "models/networks/vgg.hpp"
#include "models/scalar.hpp"
#include "models/shape_text.hpp"
#include "models/storage/durable_file.hpp"

#include <torch/nn/module.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::models {

namespace {

using image = std::array<int64_t, 3>;

constexpr image digit{1, 28, 28};
constexpr image small_picture{3, 32, 32};
constexpr image large_picture{3, 224, 224};

/// A network halves the image five times, and normalising a batch of one needs
/// more than one pixel.
constexpr int64_t after_five_halves = 64;

void add_resnets(std::vector<network_entry>& all, bool small) {
  for (int64_t depth : {18, 34, 50, 101, 152}) {
    auto stem =
      small ? resnet_plan::stem_kind::small : resnet_plan::stem_kind::large;
    all.push_back({"resnet" + std::to_string(depth) + (small ? "_cifar" : ""),
                   small ? small_picture : large_picture, small ? 10 : 1000,
                   small ? 16 : after_five_halves,
                   [depth, stem](int64_t classes) {
                     return make_resnet(plan_of_resnet(depth, stem), classes);
                   }});
  }
}

void add_vggs(std::vector<network_entry>& all, bool small) {
  for (int64_t depth : {11, 13, 16, 19}) {
    for (auto normalised : {false, true}) {
      vgg_plan plan{depth, normalised, small};
      all.push_back({"vgg" + std::to_string(depth) + (normalised ? "_bn" : "") +
                       (small ? "_cifar" : ""),
                     small ? small_picture : large_picture, small ? 10 : 1000,
                     small ? 0 : 32, [plan](int64_t classes) {
                       return make_vgg(plan, classes);
                     }});
    }
  }
}

void add_cifar_resnets(std::vector<network_entry>& all) {
  for (int64_t depth : {20, 32, 44, 56, 110}) {
    all.push_back({"resnet" + std::to_string(depth), small_picture, 10, 8,
                   [depth](int64_t classes) {
                     return make_resnet(plan_of_cifar_resnet(depth), classes);
                   }});
  }
}

std::vector<network_entry> make_registry() {
  std::vector<network_entry> all{
    {"lenet", digit, 10, 0, make_lenet},
    {"mnist_net", digit, 10, 0, make_mnist_net},
  };
  for (auto small : {false, true}) {
    add_resnets(all, small);
    add_vggs(all, small);
  }
  add_cifar_resnets(all);
  return all;
}

/// Troupe's own, then those of the user's program in the order of registration.
std::vector<network_entry>& table() {
  static auto all = [] {
    auto own = make_registry();
    for (const auto& each : own)
      config::add_network(each.name);
    return own;
  }();
  return all;
}

/// Makes them known to config before main.
[[maybe_unused]] const auto& networks_are_known = table();

const std::vector<network_entry>& checked_table() {
  const auto& all = table();
  std::vector<config::registered_name> names;
  for (const auto& each : all)
    names.push_back({each.name, each.make != nullptr});
  config::require_registered("network", names);
  return all;
}

/// Module::to would make floats of integer buffers, too.
void convert(torch::nn::Module& module, at::ScalarType dtype) {
  for (auto& x : module.parameters()) {
    x.set_data(x.to(dtype));
  }
  for (auto& x : module.buffers()) {
    if (x.is_floating_point()) {
      x.set_data(x.to(dtype));
    }
  }
}

} // namespace

network::~network() {
  // nop
}

const std::vector<network_part>& network::parts() {
  static const std::vector<network_part> unknown;
  return unknown;
}

void network::read_constant(const std::string& name, std::span<std::byte>) {
  throw std::logic_error("the network has no constant " + name);
}

/// Programs that link the library contain this source although they may not
/// call it (CMakeLists.txt).
extern "C" const char troupe_networks_are_known = 1;

register_network::register_network(network_entry entry) {
  auto& all = table();
  config::add_network(entry.name);
  all.push_back(std::move(entry));
}

const std::vector<network_entry>& network_registry() {
  static const auto& all = checked_table();
  return all;
}

const network_entry& network_named(const std::string& name) {
  const auto& all = network_registry();
  auto found = std::ranges::find(all, name, &network_entry::name);
  if (found == all.end()) {
    throw usage_error("unknown network '" + name +
                      "'; --list-networks shows all");
  }
  return *found;
}

std::shared_ptr<network> make_network(const std::string& name, int64_t classes,
                                      config::scalar_type dtype) {
  auto result =
    config::is_script(name)      ? load_script(config::network_file(name))
    : config::is_described(name) ? load_description(config::network_file(name))
                                 : network_named(name).make(classes);
  convert(result->module(), to_aten(dtype));
  return result;
}

std::string digest_of_network(const std::string& name) {
  if (config::is_described(name))
    return digest_of_description(config::network_file(name));
  return config::is_script(name) ? digest_of_file(config::network_file(name))
                                 : "";
}

std::vector<std::string> network_names() {
  std::vector<std::string> result;
  for (const auto& entry : network_registry()) {
    result.push_back(entry.name);
  }
  return result;
}

network_size size_of(const network_entry& entry) {
  auto layout = flat_layout::from(entry.make(entry.classes)->module());
  network_size out;
  out.parameters = layout.parameter_count();
  out.keys = layout.state_dict().size();
  for (const auto& x : layout.state_dict()) {
    if (x.kind != tensor_kind::parameter && x.same_as.empty()) {
      out.buffers += x.count;
    }
  }
  return out;
}

void require_suitable(const std::string& network, const std::string& dataset,
                      const std::vector<int64_t>& shape, int64_t classes) {
  if (config::is_described(network) || config::is_external(dataset)) {
    return; // Another process computes it, on samples of its own.
  }
  if (config::is_script(network)) {
    auto net = load_script(config::network_file(network));
    return require_scores(*net, network, dataset, shape, classes);
  }
  const auto& net = network_named(network);
  auto fixed = net.smallest == 0;
  auto suits = fixed ? std::ranges::equal(shape, net.input)
                     : shape.size() == 3 && shape[0] == net.input[0] &&
                         std::min(shape[1], shape[2]) >= net.smallest;
  if (suits) {
    return;
  }
  auto wanted =
    fixed ? shape_text(net.input)
          : std::to_string(net.input[0]) + " channels and at least " +
              std::to_string(net.smallest) + "x" + std::to_string(net.smallest);
  throw usage_error("--network " + network + " takes images of " + wanted +
                    ", those of " + dataset + " are " + shape_text(shape) +
                    "; --list-networks shows what each takes");
}

} // namespace troupe::models
