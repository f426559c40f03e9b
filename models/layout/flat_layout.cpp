#include "models/layout/flat_layout.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "models/layout/layer_kind.hpp"
#include "models/storage/safetensors.hpp"
#include "models/storage/sha256.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

namespace troupe::models {

namespace {

constexpr uint64_t most_elements = uint64_t{1} << 56;

/// The alignment of each constant, so that any type can be read in place.
constexpr uint64_t constant_alignment = 8;

uint64_t rounded_up(uint64_t x, uint64_t to) {
  return (x + to - 1) / to * to;
}

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

tensor_kind kind_of(const std::string& name, const at::Tensor& buffer) {
  if (buffer.is_floating_point()) {
    return tensor_kind::statistic;
  }
  if (buffer.scalar_type() != at::kLong || buffer.dim() != 0) {
    throw run_error("buffer " + name + " is " +
                    c10::toString(buffer.scalar_type()) +
                    ", neither floating-point nor a counter");
  }
  return tensor_kind::counter;
}

struct named_state {
  std::string name;
  at::Tensor value;
  tensor_kind kind;
  std::string layer; ///< The path of the module that owns it.
  std::optional<bool> normalises = {};
};

/// What a module owns itself, with its path before each name.
void add_own(const torch::nn::Module& module, const std::string& path,
             std::vector<named_state>& out) {
  auto prefix = path.empty() ? "" : path + ".";
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    out.push_back({prefix + item.key(), item.value(), tensor_kind::parameter,
                   path, normalises(module)});
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    auto name = prefix + item.key();
    out.push_back({name, item.value(), kind_of(name, item.value()), path});
  }
}

/// In the order of PyTorch's state_dict: a module's parameters, its buffers,
/// its children.
std::vector<named_state> state_of(const torch::nn::Module& module) {
  std::vector<named_state> out;
  add_own(module, "", out);
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    add_own(*item.value(), item.key(), out);
  }
  return out;
}

/// The tensors that are not trained. A tensor with several names is frozen if
/// one of them matches.
class frozen_tensors {
public:
  frozen_tensors(const std::vector<named_state>& all,
                 const config::key_patterns& freeze) {
    for (const auto& x : all) {
      if (x.kind == tensor_kind::statistic && freeze.match(x.name)) {
        layers_.insert(x.layer);
      }
    }
    for (const auto& x : all) {
      auto is_frozen = x.kind == tensor_kind::parameter
                         ? freeze.match(x.name) || !x.value.requires_grad()
                         : layers_.contains(x.layer);
      if (is_frozen) {
        tensors_.insert(x.value.unsafeGetTensorImpl());
      }
    }
  }

  bool contains(const at::Tensor& x) const {
    return tensors_.contains(x.unsafeGetTensorImpl());
  }

private:
  std::set<std::string> layers_; ///< Those whose statistics are frozen.
  std::set<const at::TensorImpl*> tensors_;
};

void require_patterns(const config::key_patterns& freeze,
                      const std::vector<named_state>& all) {
  std::vector<std::string> names;
  for (const auto& x : all) {
    if (x.kind != tensor_kind::counter) {
      names.push_back(x.name);
    }
  }
  if (const auto* idle = config::idle_pattern(freeze, names)) {
    throw usage_error("--freeze " + config::shown(*idle) +
                      ": matches no tensor of the network");
  }
}

void require_fit(const flat_layout& layout, const at::Tensor& flat) {
  if (!layout.fits(flat)) {
    throw run_error("a buffer does not fit the layout of " +
                    std::to_string(layout.count()) + " parameters");
  }
}

/// Makes tensors of the module views into `flat`.
void bind(torch::nn::Module& module, const flat_layout& layout,
          const std::vector<parameter_slot>& slots, const at::Tensor& flat) {
  require_fit(layout, flat);
  auto all = tensors_of(module, slots, layout.dtype());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].set_data(layout.view(flat, slots[i]));
  }
}

/// Copies tensors of the module to their places in `flat`.
void copy(const torch::nn::Module& module, const flat_layout& layout,
          const std::vector<parameter_slot>& slots, const at::Tensor& flat) {
  torch::NoGradGuard no_grad;
  auto all = tensors_of(module, slots, layout.dtype());
  for (size_t i = 0; i < all.size(); ++i) {
    layout.view(flat, slots[i]).copy_(all[i]);
  }
}

/// Orders the trained parameters by owner; returns the number of elements of
/// each owner.
std::map<uint32_t, uint64_t> order_by(const parameter_owner& owner,
                                      std::vector<parameter_slot>& all) {
  std::map<uint32_t, std::vector<parameter_slot*>> owned;
  for (auto& x : all) {
    if (x.kind == tensor_kind::parameter && !x.frozen && x.same_as.empty()) {
      owned[owner(x.name)].push_back(&x);
    }
  }
  std::map<uint32_t, uint64_t> out;
  uint64_t total = 0;
  for (const auto& [number, its] : owned) {
    for (auto* x : its) {
      x->offset = std::exchange(total, total + x->count);
      out[number] += x->count;
    }
  }
  return out;
}

at::Tensor part_of(const at::Tensor& flat, uint64_t first, uint64_t count) {
  return flat.narrow(0, static_cast<int64_t>(first),
                     static_cast<int64_t>(count));
}

} // namespace

flat_layout flat_layout::from(const torch::nn::Module& module,
                              const config::key_patterns& freeze,
                              const parameter_owner& owner) {
  flat_layout result;
  auto state = state_of(module);
  require_patterns(freeze, state);
  frozen_tensors frozen{state, freeze};
  std::vector<parameter_slot> all;
  std::map<const at::TensorImpl*, std::string> first_names;
  auto first = true;
  for (const auto& x : state) {
    all.push_back({x.name, x.value.sizes().vec(), 0, 0, x.kind, "",
                   x.normalises, frozen.contains(x.value)});
    auto [known, is_new] =
      first_names.emplace(x.value.unsafeGetTensorImpl(), x.name);
    if (!is_new) {
      all.back().same_as = known->second;
    }
    if (x.kind == tensor_kind::counter) {
      continue;
    }
    auto found = from_aten(x.name, x.value.scalar_type());
    if (!std::exchange(first, false) && found != result.dtype_) {
      throw run_error("parameter " + x.name +
                      " differs in dtype from those before it");
    }
    result.dtype_ = found;
  }
  result.place_all(std::move(all), owner);
  auto all_frozen = result.slots_.empty() && !result.frozen_slots_.empty();
  if (all_frozen && freeze.empty()) {
    throw run_error("no parameter of the network needs a gradient: there is "
                    "nothing to train");
  }
  if (all_frozen) {
    throw usage_error("--freeze " + config::join(freeze.all, ",") +
                      ": leaves no parameter to train");
  }
  return result;
}

flat_layout flat_layout::from(
  const std::vector<std::pair<std::string, std::vector<int64_t>>>& parameters,
  config::scalar_type dtype) {
  flat_layout result;
  result.dtype_ = dtype;
  std::vector<parameter_slot> all;
  for (const auto& [name, shape] : parameters) {
    all.push_back({name, shape});
  }
  result.place_all(std::move(all));
  return result;
}

void flat_layout::place_all(std::vector<parameter_slot> all,
                            const parameter_owner& owner) {
  for (auto& x : all) {
    x.count = count_of(x.name, x.shape);
    auto& total = x.frozen                           ? frozen_
                  : x.kind == tensor_kind::parameter ? parameters_
                                                     : numbers_;
    if (x.count > most_elements || total + x.count > most_elements) {
      throw run_error("parameter " + x.name + " has an impossible shape");
    }
    if (x.same_as.empty() && x.kind != tensor_kind::counter) {
      x.offset = std::exchange(total, total + x.count);
    }
  }
  if (owner) {
    owned_ = order_by(owner, all);
  }
  std::map<std::string, uint64_t> places;
  for (auto& x : all) {
    if (!x.same_as.empty()) {
      x.offset = places.at(x.same_as);
    }
    if (!places.emplace(x.name, x.offset).second) {
      throw run_error("there are two parameters of name " + x.name);
    }
  }
  for (auto& x : all) {
    if (x.kind == tensor_kind::statistic && !x.frozen) {
      x.offset += parameters_;
    }
    if (x.kind != tensor_kind::counter && x.same_as.empty()) {
      auto& among = x.frozen                           ? frozen_slots_
                    : x.kind == tensor_kind::parameter ? slots_
                                                       : statistics_;
      among.push_back(x);
    }
  }
  std::ranges::stable_sort(slots_, {}, &parameter_slot::offset);
  state_dict_ = std::move(all);
}

void flat_layout::set_groups(
  const std::function<config::group_numbers(const parameter_slot&)>& of) {
  for (auto& slot : slots_) {
    slot.group = of(slot);
  }
}

void flat_layout::add_constants(std::vector<parameter_slot> constants) {
  std::map<std::string, const parameter_slot*> known;
  for (const auto& x : state_dict_)
    known.emplace(x.name, nullptr);
  if (!constants.empty() && constant_end_ == 0)
    constant_end_ = rounded_up(frozen_ * size_of(dtype_), constant_alignment);
  for (auto& x : constants) {
    x.kind = tensor_kind::constant;
    x.frozen = true;
    if (x.same_as.empty()) {
      x.count = bytes_of(named_tensor{x.name, x.dtype, x.shape, {}});
      x.offset = constant_end_;
      constant_end_ = rounded_up(constant_end_ + x.count, constant_alignment);
      if (x.count > most_elements || constant_end_ > most_elements)
        throw run_error("tensor " + x.name + " has an impossible shape");
    } else if (auto first = known.find(x.same_as);
               first != known.end() && first->second) {
      x.count = first->second->count;
      x.offset = first->second->offset;
    } else {
      throw run_error("tensor " + x.name + " is another name of " + x.same_as +
                      ", which is not there");
    }
    if (!known.emplace(x.name, &x).second)
      throw run_error("there are two parameters of name " + x.name);
  }
  for (auto& x : constants) {
    if (x.same_as.empty())
      constants_.push_back(x);
    state_dict_.push_back(std::move(x));
  }
}

uint64_t flat_layout::frozen_count() const noexcept {
  auto width = size_of(dtype_);
  return std::max(frozen_, (constant_end_ + width - 1) / width);
}

std::span<std::byte> flat_layout::constant_in(const at::Tensor& frozen,
                                              const parameter_slot& slot) {
  if (slot.count == 0)
    return {};
  return {static_cast<std::byte*>(frozen.mutable_data_ptr()) + slot.offset,
          slot.count};
}

at::Tensor flat_layout::view(const at::Tensor& flat,
                             const parameter_slot& slot) const {
  return part_of(flat, slot.offset, slot.count).view(slot.shape);
}

at::Tensor flat_layout::parameters_of(const at::Tensor& flat) const {
  return part_of(flat, 0, parameters_);
}

at::Tensor flat_layout::statistics_of(const at::Tensor& flat) const {
  return part_of(flat, parameters_, numbers_);
}

bool flat_layout::fits(const at::Tensor& flat, c10::Device where) const {
  return fits(flat, count(), where);
}

bool flat_layout::fits_parameters(const at::Tensor& flat) const {
  return fits(flat, parameters_);
}

bool flat_layout::fits_frozen(const at::Tensor& flat) const {
  return fits(flat, frozen_count());
}

bool flat_layout::fits(const at::Tensor& flat, uint64_t count,
                       c10::Device where) const {
  return flat.defined() && flat.dim() == 1 && flat.is_contiguous() &&
         flat.device() == where && flat.scalar_type() == to_aten(dtype_) &&
         static_cast<uint64_t>(flat.numel()) == count;
}

std::vector<at::Tensor> tensors_of(const torch::nn::Module& module,
                                   const std::vector<parameter_slot>& slots,
                                   config::scalar_type dtype) {
  std::map<std::string, at::Tensor> all;
  for (auto& x : state_of(module)) {
    all.emplace(std::move(x.name), std::move(x.value));
  }
  std::vector<at::Tensor> out;
  for (const auto& slot : slots) {
    auto found = all.find(slot.name);
    if (found == all.end()) {
      throw run_error("the network has no parameter " + slot.name);
    }
    auto& x = found->second;
    if (static_cast<uint64_t>(x.numel()) != slot.count ||
        x.scalar_type() != to_aten(dtype)) {
      throw run_error("parameter " + slot.name +
                      " differs from the layout in size or dtype");
    }
    out.push_back(std::move(x));
  }
  return out;
}

void bind_parameters(torch::nn::Module& module, const flat_layout& layout,
                     const at::Tensor& flat) {
  bind(module, layout, layout.slots(), flat);
}

void bind_statistics(torch::nn::Module& module, const flat_layout& layout,
                     const at::Tensor& flat) {
  bind(module, layout, layout.statistics(), flat);
}

void bind_gradients(torch::nn::Module& module, const flat_layout& layout,
                    const at::Tensor& flat) {
  require_fit(layout, flat);
  auto parameters = tensors_of(module, layout.slots(), layout.dtype());
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].mutable_grad() = layout.view(flat, layout.slots()[i]);
  }
}

at::Tensor gather(const torch::nn::Module& module, const flat_layout& layout) {
  auto flat =
    at::empty({static_cast<int64_t>(layout.count())}, to_aten(layout.dtype()));
  copy(module, layout, layout.slots(), flat);
  copy(module, layout, layout.statistics(), flat);
  return flat;
}

at::Tensor gather_frozen(const torch::nn::Module& module,
                         const flat_layout& layout) {
  // Zeros: what lies between constants is part of a digest.
  auto flat = at::zeros({static_cast<int64_t>(layout.frozen_count())},
                        to_aten(layout.dtype()));
  copy(module, layout, layout.frozen(), flat);
  return flat;
}

std::string weights_sha256(const whole_weights& all,
                           const flat_layout& layout) {
  require_fit(layout, all.trained);
  sha256 sum;
  for (const auto& slot : layout.state_dict()) {
    if (slot.kind != tensor_kind::parameter || !slot.same_as.empty()) {
      continue;
    }
    auto values = layout.view(all, slot).to(at::kFloat);
    sum.update(std::as_bytes(
      std::span{values.const_data_ptr<float>(), size_t{slot.count}}));
  }
  return to_hex(sum.finish());
}

} // namespace troupe::models
