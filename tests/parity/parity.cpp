// troupe_parity NETWORK FILE: computes what reference.py has computed with the
// same weights and inputs, and compares. Prints one line; exits 1 if keys or
// shapes differ, or a number by more than 1e-5 of the largest of its tensor.

#include "config/text/failure.hpp"
#include "models/gradient_places.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/network.hpp"
#include "models/storage/safetensors.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <string>

namespace {

using namespace troupe;
using namespace troupe::models;

constexpr double tolerance = 1e-5;

/// A gradient that is zero but for rounding, as that of a bias before batch
/// normalisation, is compared with the largest of all.
constexpr double smallest_scale = 1e-6;

class reference {
public:
  explicit reference(const std::string& path) : file_(read_safetensors(path)) {
    for (const auto& x : file_.tensors())
      tensors_.emplace(x.name, &x);
  }

  at::Tensor operator[](const std::string& name) const {
    auto found = tensors_.find(name);
    if (found == tensors_.end())
      throw run_error("the reference has no " + name);
    const auto& x = *found->second;
    auto type = x.dtype == "I64"   ? at::kLong
                : x.dtype == "F64" ? at::kDouble
                                   : at::kFloat;
    return at::from_blob(const_cast<std::byte*>(x.bytes.data()), x.shape, type);
  }

  std::string text(const std::string& name) const {
    return file_.metadata().at(name);
  }

private:
  tensor_file file_;
  std::map<std::string, const named_tensor*> tensors_;
};

double largest(const at::Tensor& x) {
  return x.numel() == 0 ? 0 : x.abs().max().item<double>();
}

/// The largest difference, relative to the largest number or to `scale`.
double difference(const at::Tensor& ours, const at::Tensor& theirs,
                  double scale = 0) {
  if (ours.sizes() != theirs.sizes())
    throw run_error("a shape differs");
  auto wide = theirs.to(at::kDouble);
  return largest(ours.to(at::kDouble) - wide) /
         std::max({largest(wide), scale, 1e-300});
}

void require_keys(const flat_layout& layout, const reference& from) {
  std::string keys;
  for (const auto& x : layout.state_dict()) {
    keys += (keys.empty() ? "" : "\n") + x.name;
    if (from["state." + x.name].sizes() != at::IntArrayRef{x.shape})
      throw run_error("the shape of " + x.name + " differs");
  }
  if (keys != from.text("keys"))
    throw run_error("the keys of the state dict, or their order, differ");
}

at::Tensor flat_of(const flat_layout& layout) {
  return at::zeros({static_cast<int64_t>(layout.count())}, at::kDouble);
}

at::Tensor load_weights(const flat_layout& layout, const reference& from) {
  auto flat = flat_of(layout);
  for (const auto& slots : {layout.slots(), layout.statistics()})
    for (const auto& x : slots)
      layout.view(flat, x).copy_(from["state." + x.name]);
  return flat;
}

/// As compute_engine does it, but for dropout: gradients of fully connected
/// layers come out in their places.
at::Tensor compute(network& net, const flat_layout& layout,
                   const reference& from, const at::Tensor& gradient) {
  auto parameters = net.module().parameters();
  gradient_places places;
  for (size_t i = 0; i < parameters.size(); ++i)
    places.set(parameters[i], layout.view(gradient, layout.slots()[i]));
  auto logits = net.forward(from["inputs"], places);
  auto loss = at::cross_entropy_loss(logits, from["targets"]);
  auto found = torch::autograd::grad({loss}, parameters);
  for (size_t i = 0; i < parameters.size(); ++i)
    if (found[i].const_data_ptr() != places[i].const_data_ptr())
      places[i].copy_(found[i]);
  return logits.detach();
}

struct differences {
  double logits = 0;
  double gradients = 0;
  double statistics = 0;

  double worst() const { return std::max({logits, gradients, statistics}); }
};

differences compare(network& net, const flat_layout& layout,
                    const reference& from, const std::string& mode) {
  auto weights = load_weights(layout, from);
  auto gradient = flat_of(layout);
  bind_parameters(net.module(), layout, weights);
  bind_statistics(net.module(), layout, weights);
  net.module().train(mode == "train");
  differences out;
  out.logits =
    difference(compute(net, layout, from, gradient), from[mode + ".logits"]);
  auto scale = smallest_scale * largest(layout.parameters_of(gradient));
  for (const auto& x : layout.slots())
    out.gradients = std::max(
      out.gradients, difference(layout.view(gradient, x),
                                from[mode + ".gradient." + x.name], scale));
  for (const auto& x : layout.statistics())
    out.statistics =
      std::max(out.statistics, difference(layout.view(weights, x),
                                          from[mode + ".buffer." + x.name]));
  return out;
}

int run(const std::string& name, const std::string& path) {
  reference from{path};
  auto net = make_network(name, std::stoll(from.text("classes")),
                          config::scalar_type::float64);
  auto layout = flat_layout::from(net->module());
  require_keys(layout, from);
  std::printf("%-16s %9llu parameters  %3zu keys", name.c_str(),
              static_cast<unsigned long long>(layout.parameter_count()),
              layout.state_dict().size());
  auto worst = 0.0;
  for (const std::string mode : {"eval", "train"}) {
    auto found = compare(*net, layout, from, mode);
    std::printf("  %s: logits %.0e gradients %.0e statistics %.0e",
                mode.c_str(), found.logits, found.gradients, found.statistics);
    worst = std::max(worst, found.worst());
  }
  auto good = worst <= tolerance; // False for NaN.
  std::printf("  %s\n", good ? "equal" : "DIFFERENT");
  return good ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: troupe_parity NETWORK FILE\n");
    return 2;
  }
  try {
    at::set_num_threads(1);
    return run(argv[1], argv[2]);
  } catch (const std::exception& err) {
    std::printf("%-16s DIFFERENT: %s\n", argv[1], err.what());
    return 1;
  }
}
