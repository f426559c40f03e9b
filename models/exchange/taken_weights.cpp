#include "models/exchange/taken_weights.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "models/exchange/wrapper_names.hpp"
#include "models/optim/aggregate.hpp"
#include "models/shape_text.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

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

constexpr std::array floating_types{
  std::pair{std::string_view{"F32"}, at::kFloat},
  std::pair{std::string_view{"F64"}, at::kDouble},
  std::pair{std::string_view{"F16"}, at::kHalf},
  std::pair{std::string_view{"BF16"}, at::kBFloat16},
};

constexpr std::array other_types{
  std::pair{std::string_view{"I64"}, at::kLong},
  std::pair{std::string_view{"I32"}, at::kInt},
  std::pair{std::string_view{"I16"}, at::kShort},
  std::pair{std::string_view{"I8"}, at::kChar},
  std::pair{std::string_view{"U8"}, at::kByte},
  std::pair{std::string_view{"BOOL"}, at::kBool},
};

template <class Types>
std::optional<at::ScalarType> type_among(const Types& known,
                                         std::string_view dtype) {
  for (const auto& [name, type] : known)
    if (name == dtype)
      return type;
  return std::nullopt;
}

/// LibTorch's type for a type whose numbers can be converted; nothing for
/// others.
std::optional<at::ScalarType> plain_type(std::string_view dtype) {
  auto out = type_among(floating_types, dtype);
  return out ? out : type_among(other_types, dtype);
}

/// A copy in aligned memory, since the bytes in a file may lie anywhere.
at::Tensor aligned(const named_tensor& tensor, at::ScalarType type) {
  auto out = at::empty(tensor.shape, type);
  if (!tensor.bytes.empty())
    std::memcpy(out.mutable_data_ptr(), tensor.bytes.data(),
                tensor.bytes.size());
  return out;
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

/// How the tensors of the file belong to the names of the network.
struct matching {
  std::vector<std::string> missing; ///< Names of the network.
  std::vector<std::string> beyond;  ///< Keys of the file, as they were read.
  /// The tensors by their names as they were read.
  std::map<std::string, const named_tensor*> tensors;
  /// The names of the network as they were read.
  std::map<std::string, std::string> names;

  size_t misfits() const { return missing.size() + beyond.size(); }
};

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

  taken_weights take_weights(const whole_weights& to) {
    choose_names();
    require_match();
    for (const auto* slots :
         {&layout_.slots(), &layout_.statistics(), &layout_.frozen()})
      for (const auto& slot : *slots)
        if (is_skipped(slot.name))
          out_.skipped.push_back(slot.name);
        else
          copy(tensor_of(slot), slot, to);
    for (const auto& slot : layout_.constants())
      if (is_skipped(slot.name))
        out_.skipped.push_back(slot.name);
      else if (!keys_of(slot.name).empty())
        copy_constant(tensor_of(slot), slot, to.frozen);
    require_finite(to);
    return std::move(out_);
  }

private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw run_error(from_.path().string() + ": " + why);
  }

  [[noreturn]] void refuse_type(const named_tensor& tensor,
                                const parameter_slot& slot,
                                const std::string& wanted) const {
    refuse("tensor " + slot.name + " is of type " + tensor.dtype +
           ", and that of " + network_ + " is " + wanted);
  }

  // -- names ------------------------------------------------------------------

  /// A tensor with several names is left out if one of them matches.
  bool is_skipped(const std::string& first_name) const {
    return std::ranges::any_of(
      names_.at(first_name),
      [this](const std::string& name) { return skip_.match(name); });
  }

  /// The names of a tensor, as they are read, under which the file has it.
  std::vector<std::string> keys_of(const std::string& first_name) const {
    return keys_of(match_, first_name);
  }

  std::vector<std::string> keys_of(const matching& with,
                                   const std::string& first_name) const {
    std::vector<std::string> out;
    for (const auto& name : names_.at(first_name))
      if (const auto& key = with.names.at(name); with.tensors.contains(key))
        out.push_back(key);
    return out;
  }

  /// Chooses the first way to read the names in which all fit; if there is
  /// none, the one with the fewest misfits.
  void choose_names() {
    std::vector<std::string> mine, theirs;
    for (const auto& slot : layout_.state_dict())
      mine.push_back(slot.name);
    for (const auto& [key, tensor] : from_.tensors())
      theirs.push_back(key);
    auto aside = [this](const std::string& key) {
      return skip_.match(key);
    };
    auto first = true;
    for (const auto& own : ways_to_read(mine, aside))
      for (const auto& its : ways_to_read(theirs, aside)) {
        auto next = matched(own.names, its.names);
        if (!first && next.misfits() >= match_.misfits())
          continue;
        first = false;
        match_ = std::move(next);
        out_.names = how("file", its.without, how("network", own.without, ""));
        if (match_.misfits() == 0)
          return;
      }
  }

  static std::string how(const std::string& whose, const std::string& without,
                         const std::string& more) {
    if (without.empty())
      return more;
    return "names of the " + whose + " are read without " + without +
           (more.empty() ? "" : ", ") + more;
  }

  matching matched(const std::vector<std::string>& own,
                   const std::vector<std::string>& its) const {
    matching out;
    size_t i = 0;
    for (const auto& [key, tensor] : from_.tensors())
      if (const auto& name = its[i++]; !name.empty())
        out.tensors.emplace(name, &tensor);
    std::set<std::string> known;
    for (i = 0; i < own.size(); ++i) {
      known.insert(own[i]);
      out.names.emplace(layout_.state_dict()[i].name, own[i]);
    }
    for (const auto& slot : layout_.state_dict())
      if (is_wanted(slot) && !is_skipped(slot.name) &&
          keys_of(out, slot.name).empty())
        out.missing.push_back(slot.name);
    for (const auto& [name, tensor] : out.tensors)
      if (!known.contains(name) && !skip_.match(name) &&
          !skip_.match(tensor->name))
        out.beyond.push_back(name);
    return out;
  }

  /// Whether the file must have it. Files of earlier releases lack constants.
  static bool is_wanted(const parameter_slot& slot) {
    return slot.kind != tensor_kind::counter &&
           slot.kind != tensor_kind::constant && slot.same_as.empty();
  }

  void require_match() const {
    std::vector<std::string> all;
    for (const auto& slot : layout_.state_dict())
      all.push_back(slot.name);
    for (const auto& [name, tensor] : match_.tensors) {
      all.push_back(name);
      all.push_back(tensor->name);
    }
    if (const auto* idle = config::idle_pattern(skip_, all))
      throw usage_error("--init-skip " + config::shown(*idle) +
                        ": matches no tensor of " + network_ + " or " +
                        from_.path().string());
    const auto& [missing, beyond, tensors, names] = match_;
    if (match_.misfits() == 0)
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

  // -- tensors ----------------------------------------------------------------

  const named_tensor& tensor_of(const parameter_slot& slot) const {
    auto keys = keys_of(slot.name);
    const auto& tensor = *match_.tensors.at(keys.front());
    for (const auto& key : std::span{keys}.subspan(1))
      if (!is_same(*match_.tensors.at(key), tensor))
        refuse("tensors " + keys.front() + " and " + key + " differ, and " +
               network_ + " has one for both; --init-skip " + key +
               " leaves it out");
    return tensor;
  }

  static bool is_same(const named_tensor& a, const named_tensor& b) {
    return a.dtype == b.dtype && a.shape == b.shape &&
           std::ranges::equal(a.bytes, b.bytes);
  }

  void require_shape(const named_tensor& tensor,
                     const parameter_slot& slot) const {
    if (tensor.shape != slot.shape)
      refuse("tensor " + slot.name + " is " + shape_text(tensor.shape) +
             ", and that of " + network_ + " is " + shape_text(slot.shape) +
             "; --init-skip " + slot.name + " leaves it out");
  }

  void copy(const named_tensor& tensor, const parameter_slot& slot,
            const whole_weights& to) {
    auto type = type_among(floating_types, tensor.dtype);
    if (!type)
      refuse_type(tensor, slot, "floating-point");
    require_shape(tensor, slot);
    auto target = layout_.view(to, slot);
    auto raw = aligned(tensor, *type);
    target.copy_(raw);
    // A frozen tensor may hold infinity (a mask), but converting must not make
    // it.
    if (slot.frozen && *type == at::kDouble && all_finite(raw) &&
        !all_finite(target))
      refuse_number(slot);
    ++out_.count;
  }

  void copy_constant(const named_tensor& tensor, const parameter_slot& slot,
                     const at::Tensor& frozen) {
    require_shape(tensor, slot);
    auto to = flat_layout::constant_in(frozen, slot);
    if (tensor.dtype == slot.dtype) {
      std::ranges::copy(tensor.bytes, to.begin());
    } else {
      auto from = plain_type(tensor.dtype);
      auto wanted = plain_type(slot.dtype);
      if (!from || !wanted)
        refuse_type(tensor, slot, slot.dtype);
      if (!to.empty())
        at::from_blob(to.data(), slot.shape, *wanted)
          .copy_(aligned(tensor, *from));
    }
    ++out_.count;
  }

  [[noreturn]] void refuse_number(const parameter_slot& slot) const {
    refuse("tensor " + slot.name +
           " holds NaN or infinity, or a number too large for this run's "
           "type");
  }

  /// What is not trained may hold anything: masks, and ranges that were seen.
  void require_finite(const whole_weights& to) const {
    if (all_finite(to.trained))
      return;
    for (const auto& slot : layout_.slots())
      if (!all_finite(layout_.view(to, slot)))
        refuse_number(slot);
  }

  const weights_file& from_;
  const std::string& network_;
  const flat_layout& layout_;
  const config::key_patterns& skip_;
  /// The names of each tensor, by the first.
  std::map<std::string, std::vector<std::string>> names_;
  matching match_;
  taken_weights out_;
};

} // namespace

taken_weights take_weights(const weights_file& from, const std::string& network,
                           const flat_layout& layout,
                           const config::key_patterns& skip,
                           const whole_weights& to) {
  return weights_taker{from, network, layout, skip}.take_weights(to);
}

} // namespace troupe::models
