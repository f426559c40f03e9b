#include "models/weights/taken_weights.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "models/optim/aggregate.hpp"
#include "models/shape_text.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace troupe::models {

namespace {

constexpr size_t most_named = 5;

std::optional<at::ScalarType> floating_type(std::string_view dtype) {
  constexpr std::array known{
    std::pair{std::string_view{"F32"}, at::kFloat},
    std::pair{std::string_view{"F64"}, at::kDouble},
    std::pair{std::string_view{"F16"}, at::kHalf},
    std::pair{std::string_view{"BF16"}, at::kBFloat16},
  };
  for (const auto& [name, type] : known)
    if (name == dtype)
      return type;
  return std::nullopt;
}

/// "fc.bias, fc.weight and 3 more"
std::string some_of(const std::vector<std::string>& names) {
  auto shown = names;
  shown.resize(std::min(names.size(), most_named));
  for (auto& each : shown)
    each = config::shown(each);
  auto out = config::join(shown, ", ");
  if (names.size() > most_named)
    out += " and " + std::to_string(names.size() - most_named) + " more";
  return out;
}

class weights_taker {
public:
  weights_taker(const weights_file& from, const std::string& network,
                const flat_layout& layout, const config::key_patterns& skip)
    : from_(from), network_(network), layout_(layout), skip_(skip) {
    for (const auto& slot : layout_.state_dict())
      if (slot.kind != tensor_kind::counter)
        names_[slot.same_as.empty() ? slot.name : slot.same_as].push_back(
          slot.name);
  }

  taken_weights take(const whole_weights& to) {
    compare_keys();
    for (const auto* slots :
         {&layout_.slots(), &layout_.statistics(), &layout_.frozen()})
      for (const auto& slot : *slots)
        if (is_skipped(slot.name))
          out_.skipped.push_back(slot.name);
        else
          take(slot, to);
    require_finite(to);
    return std::move(out_);
  }

private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw run_error(from_.path().string() + ": " + why);
  }

  /// A tensor with several names is left out if one of them matches.
  bool is_skipped(const std::string& first_name) const {
    return std::ranges::any_of(
      names_.at(first_name),
      [this](const std::string& name) { return skip_.match(name); });
  }

  /// Those of its names under which it is in the file.
  std::vector<std::string> keys_of(const std::string& first_name) const {
    auto out = names_.at(first_name);
    std::erase_if(out, [this](const std::string& name) {
      return !from_.tensors().contains(name);
    });
    return out;
  }

  void compare_keys() const {
    std::vector<std::string> missing;
    std::vector<std::string> all;
    std::set<std::string> known;
    for (const auto& slot : layout_.state_dict()) {
      known.insert(slot.name);
      all.push_back(slot.name);
      if (slot.kind != tensor_kind::counter && slot.same_as.empty() &&
          !is_skipped(slot.name) && keys_of(slot.name).empty())
        missing.push_back(slot.name);
    }
    std::vector<std::string> beyond;
    for (const auto& [key, tensor] : from_.tensors()) {
      if (known.contains(key))
        continue;
      all.push_back(key);
      if (!skip_.match(key))
        beyond.push_back(key);
    }
    if (const auto* idle = config::idle_pattern(skip_, all))
      throw usage_error("--init-skip " + config::shown(*idle) +
                        ": matches no tensor of " + network_ + " or " +
                        from_.path().string());
    if (missing.empty() && beyond.empty())
      return;
    std::string what;
    if (!missing.empty())
      what = config::count(missing.size(), "tensor") + " missing (" +
             some_of(missing) + ")";
    if (!beyond.empty())
      what += (what.empty() ? "" : ", ") +
              config::count(beyond.size(), "tensor") + " too many (" +
              some_of(beyond) + ")";
    refuse("does not fit " + network_ + ": " + what +
           "; --init-skip PATTERN leaves out what differs");
  }

  void take(const parameter_slot& slot, const whole_weights& to) {
    auto keys = keys_of(slot.name);
    const auto& tensor = from_.tensors().find(keys.front())->second;
    for (const auto& key : std::span{keys}.subspan(1))
      if (!is_same(from_.tensors().find(key)->second, tensor))
        refuse("tensors " + keys.front() + " and " + key + " differ, and " +
               network_ + " has one for both; --init-skip " + key +
               " leaves it out");
    copy(tensor, slot, to);
  }

  static bool is_same(const named_tensor& a, const named_tensor& b) {
    return a.dtype == b.dtype && a.shape == b.shape &&
           a.bytes.size() == b.bytes.size() &&
           std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
  }

  void copy(const named_tensor& tensor, const parameter_slot& slot,
            const whole_weights& to) {
    auto type = floating_type(tensor.dtype);
    if (!type)
      refuse("tensor " + slot.name + " is of type " + tensor.dtype +
             ", and that of " + network_ + " is floating-point");
    if (tensor.shape != slot.shape)
      refuse("tensor " + slot.name + " is " + shape_text(tensor.shape) +
             ", and that of " + network_ + " is " + shape_text(slot.shape) +
             "; --init-skip " + slot.name + " leaves it out");
    auto target = layout_.view(to, slot);
    // The file's bytes need not be aligned.
    auto same = *type == target.scalar_type();
    auto raw = same ? target : at::empty(slot.shape, *type);
    std::memcpy(raw.mutable_data_ptr(), tensor.bytes.data(),
                tensor.bytes.size());
    if (!same)
      target.copy_(raw);
    ++out_.count;
  }

  void require_finite(const whole_weights& to) const {
    if (all_finite(to.trained) &&
        (layout_.frozen().empty() || all_finite(to.frozen)))
      return;
    for (const auto& slot : layout_.state_dict())
      if (slot.kind != tensor_kind::counter &&
          !all_finite(layout_.view(to, slot)))
        refuse("tensor " + slot.name +
               " holds NaN or infinity, or a number too large for this run's "
               "type");
  }

  const weights_file& from_;
  const std::string& network_;
  const flat_layout& layout_;
  const config::key_patterns& skip_;
  /// The names of each tensor, by the first.
  std::map<std::string, std::vector<std::string>> names_;
  taken_weights out_;
};

} // namespace

taken_weights take_weights(const weights_file& from, const std::string& network,
                           const flat_layout& layout,
                           const config::key_patterns& skip,
                           const whole_weights& to) {
  return weights_taker{from, network, layout, skip}.take(to);
}

} // namespace troupe::models
