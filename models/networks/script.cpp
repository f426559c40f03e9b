#include "models/networks/script.hpp"

#include "config/text/failure.hpp"
#include "config/text/input_file.hpp"
#include "config/text/one_line.hpp"
#include "models/networks/linear.hpp"
#include "models/shape_text.hpp"

#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/library.h>
#include <torch/nn/module.h>
#include <torch/script.h>
#include <torch/utils.h>

#include <mutex>
#include <utility>

namespace troupe::models {

namespace {

namespace jit = torch::jit;

[[noreturn]] void refuse_script(const std::string& file,
                                const std::string& why) {
  throw run_error(file + ": is no TorchScript file that can be loaded: " + why);
}

/// Does anything in the block draw random numbers?
bool draws(const jit::Block& block) {
  for (const auto* node : block.nodes()) {
    if (node->isNondeterministic())
      return true;
    for (const auto* inner : node->blocks())
      if (draws(*inner))
        return true;
  }
  return false;
}

bool draws(const jit::Module& script) {
  auto graph = script.get_method("forward").graph()->copy();
  jit::Inline(*graph);
  return draws(*graph->block());
}

/// Keeps clear of the streams of dropout layers and of the data.
constexpr uint64_t script_purpose = 0xc0000000;

uint64_t seed_of(const dropout_key& key) {
  at::Philox4_32 random{key.seed, key.epoch << 32 | (key.first & 0xffffffff),
                        script_purpose << 32};
  uint64_t high = random();
  return high << 32 | random();
}

/// A module of the C++ frontend with the parameters and buffers of a script's.
/// They are the same tensors: what one is bound to, the other sees. Each has
/// the name of its class in Python.
class mirror {
public:
  explicit mirror(std::string file) : file_(std::move(file)) {
    // nop
  }

  std::shared_ptr<torch::nn::Module> of(const jit::Module& script,
                                        const std::string& path = "") {
    auto name = script.type()->name();
    auto out = std::make_shared<torch::nn::Module>(name ? name->qualifiedName()
                                                        : "script");
    for (const auto& item : script.named_parameters(/*recurse=*/false)) {
      check(path + item.name, item.value);
      out->register_parameter(item.name, item.value,
                              item.value.requires_grad());
    }
    for (const auto& item : script.named_buffers(/*recurse=*/false))
      out->register_buffer(item.name, item.value);
    for (const auto& item : script.named_children())
      out->register_module(item.name, of(item.value, path + item.name + "."));
    if (script.hasattr("training"))
      modes_.push_back({script, out.get()});
    return out;
  }

  /// Has each part of the script train, or not, as its counterpart does.
  void pass_on_modes() {
    for (auto& [script, counterpart] : modes_)
      if (script.is_training() != counterpart->is_training())
        script.setattr("training", counterpart->is_training());
  }

private:
  struct mode {
    jit::Module script;
    const torch::nn::Module* counterpart;
  };

  void check(const std::string& name, const at::Tensor& x) {
    if (x.scalar_type() != at::kFloat)
      refuse(name, "is not float32");
  }

  [[noreturn]] void refuse(const std::string& name, const char* why) const {
    throw run_error(file_ + ": parameter " + name + " " + why);
  }

  std::string file_;
  std::vector<mode> modes_;
};

/// Where this thread's script is to put gradients; null between two passes.
thread_local const gradient_places* script_places = nullptr;

class places_for_script {
public:
  explicit places_for_script(const gradient_places& places) {
    script_places = &places;
  }

  ~places_for_script() { script_places = nullptr; }

  places_for_script(const places_for_script&) = delete;
  places_for_script& operator=(const places_for_script&) = delete;
};

/// Takes the place of `aten::linear` in scripts.
at::Tensor script_linear(const at::Tensor& inputs, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias) {
  auto of_layer = bias.value_or(at::Tensor{});
  return script_places ? linear(inputs, weight, of_layer, *script_places)
                       : at::linear(inputs, weight, of_layer);
}

TORCH_LIBRARY_FRAGMENT(troupe, operators) {
  operators.def("linear(Tensor input, Tensor weight, Tensor? bias=None) -> "
                "Tensor",
                script_linear);
}

/// Makes the fully connected layers of a script write their gradients straight
/// to their places: for large ones, a copy costs as much as the product. To be
/// called before all else that uses the graphs, since LibTorch keeps copies.
void place_linear_layers(jit::Block& block) {
  static const auto ours = c10::Symbol::fromQualString("troupe::linear");
  auto nodes = block.nodes();
  for (auto at = nodes.begin(); at != nodes.end();) {
    auto* node = *at;
    ++at;
    for (auto* inner : node->blocks())
      place_linear_layers(*inner);
    if (node->kind() != c10::aten::linear)
      continue;
    node->replaceWithNewSymbol(ours);
    node->destroy();
  }
}

void place_linear_layers(const jit::Module& script) {
  for (const auto& module : script.modules())
    for (const auto& method : module.get_methods())
      place_linear_layers(*method.graph()->block());
}

class script_network final : public network {
public:
  script_network(jit::Module script, const std::string& file)
    : script_(std::move(script)), mirror_(file), module_(mirror_.of(script_)),
      draws_(draws(script_)) {
    for (const auto& x : module_->parameters())
      first_.push_back(x.detach().clone());
    for (const auto& x : module_->buffers())
      first_.push_back(x.clone());
    if (module_->parameters().empty())
      throw run_error(file + ": has no parameters: nothing can be trained");
  }

  torch::nn::Module& module() override { return *module_; }

  // Without LibTorch's optimiser of scripts the first pass gives the same bits
  // as all later ones.
  at::Tensor forward(const at::Tensor& inputs, const gradient_places& places,
                     const std::optional<dropout_key>& drop) override {
    places_for_script here{places};
    mirror_.pass_on_modes();
    jit::GraphOptimizerEnabledGuard plain{false};
    if (!drop || !draws_)
      return script_.forward({inputs}).toTensor();
    static std::mutex one_at_a_time;
    std::lock_guard guard{one_at_a_time};
    torch::manual_seed(seed_of(*drop));
    return script_.forward({inputs}).toTensor();
  }

  bool restore() override {
    torch::NoGradGuard no_grad;
    auto from = first_.begin();
    for (auto& x : module_->parameters())
      x.copy_(*from++);
    for (auto& x : module_->buffers())
      x.copy_(*from++);
    return true;
  }

private:
  jit::Module script_;
  mirror mirror_;
  std::shared_ptr<torch::nn::Module> module_;
  bool draws_;                    ///< Random numbers, when it trains.
  std::vector<at::Tensor> first_; ///< Parameters, then buffers, of the file.
};

} // namespace

std::shared_ptr<network> load_script(const std::string& file) {
  try {
    config::input_file probe{file}; // LibTorch would wait for a pipe.
    auto script = jit::load(file, at::kCPU);
    place_linear_layers(script);
    return std::make_shared<script_network>(std::move(script), file);
  } catch (const config::unreadable& why) {
    refuse_script(file, why.what());
  } catch (const failure&) {
    throw;
  } catch (const std::exception& err) {
    refuse_script(file, one_line(err));
  }
}

void require_scores(network& net, const std::string& name,
                    const std::string& dataset,
                    const std::vector<int64_t>& shape, int64_t classes) {
  auto sizes = shape;
  sizes.insert(sizes.begin(), 2);
  std::string what = "--network " + name + ": a batch of " + shape_text(sizes) +
                     " (" + dataset + ") ";
  at::Tensor scores;
  try {
    torch::NoGradGuard no_grad;
    net.module().eval();
    scores = net.forward(at::zeros(sizes), {}, {});
  } catch (const std::exception& err) {
    throw usage_error(what + "is not taken: " + one_line(err));
  }
  if (scores.dim() != 2 || scores.size(0) != 2 ||
      (classes > 0 && scores.size(1) != classes))
    throw usage_error(what + "gives " + shape_text(scores.sizes()) +
                      ", not 2 rows of scores for the " +
                      (classes > 0 ? std::to_string(classes) + " " : "") +
                      "classes");
}

} // namespace troupe::models
