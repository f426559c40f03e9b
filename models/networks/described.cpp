#include "models/networks/described.hpp"

#include "config/text/failure.hpp"
#include "config/text/input_file.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "config/values/param_groups.hpp"
#include "models/storage/durable_file.hpp"
#include "models/storage/stored_tensors.hpp"

#include <ATen/ops/empty.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <utility>

namespace troupe::models {

namespace {

/// What they say of tensors is not part of what a file describes: runs of
/// earlier releases, whose files had no such keys, go on with it.
constexpr std::string_view carried_key = "troupe.carried";
constexpr std::string_view constant_key = "troupe.constant";

[[noreturn]] void refuse_description(const std::string& file,
                                     const std::string& why) {
  throw run_error(file + ": describes no network: " + why);
}

stored_tensors open_description(const std::string& file) {
  return {open_file(file), file};
}

std::vector<std::string> lines_of(const stored_tensors& from,
                                  const std::string& key) {
  std::vector<std::string> out;
  auto found = from.metadata().find(key);
  if (found == from.metadata().end())
    return out;
  std::istringstream text{found->second};
  for (std::string line; std::getline(text, line);)
    out.push_back(line);
  return out;
}

at::ScalarType type_of(const named_tensor& what, const std::string& file) {
  if (what.dtype == "F32")
    return at::kFloat;
  if (what.dtype == "F64")
    return at::kDouble;
  if (what.dtype == "I64")
    return at::kLong;
  refuse_description(file, "tensor " + config::shown(what.name) + " is " +
                             what.dtype +
                             "; F32 and F64 are trained, and I64 counts");
}

/// Makes the modules that the names of tensors speak of.
class builder {
public:
  explicit builder(std::string file)
    : file_(std::move(file)), from_(open_description(file_)),
      root_(std::make_shared<torch::nn::Module>("described")) {
    auto statistics = names("troupe.statistics");
    auto frozen = names("troupe.frozen");
    for (const auto& name : names(std::string{carried_key})) {
      frozen.erase(name);
      statistics.insert(name);
    }
    for (const auto& name : names(std::string{constant_key})) {
      statistics.erase(name);
      frozen.insert(name);
    }
    for (const auto& what : from_.tensors()) {
      auto value = at::empty(what.shape, type_of(what, file_));
      auto is_buffer =
        statistics.contains(what.name) || value.dtype() == at::kLong;
      add(what.name, value, is_buffer, !frozen.contains(what.name));
      tensors_.emplace(what.name, value);
      if (is_buffer)
        buffers_.insert(what.name);
    }
    for (const auto& line : lines_of(from_, "troupe.shared"))
      share(line);
    for (const auto& line : lines_of(from_, "troupe.groups"))
      group(line);
    if (root_->parameters().empty())
      refuse_description(file_, "it has no tensor that could be trained");
  }

  std::shared_ptr<torch::nn::Module> module() const { return root_; }

  const std::map<std::string, config::group_numbers>& groups() const {
    return groups_;
  }

private:
  /// The tensors that a line of the metadata names, which must be there.
  std::set<std::string> names(const std::string& key) const {
    std::set<std::string> out;
    for (auto& line : lines_of(from_, key)) {
      if (from_.find(line) == nullptr)
        refuse_description(file_, key + " names " + config::in_quotes(line) +
                                    ", which is not among its tensors");
      out.insert(std::move(line));
    }
    return out;
  }

  /// What stands before and behind the sign of equality.
  static std::pair<std::string, std::string> sides_of(const std::string& line) {
    constexpr std::string_view between = " = ";
    auto at = line.find(between);
    return at == std::string::npos
             ? std::pair{line, std::string{}}
             : std::pair{line.substr(0, at), line.substr(at + between.size())};
  }

  /// "decoder.weight = embedding.weight"
  void share(const std::string& line) {
    auto [name, first] = sides_of(line);
    auto its = tensors_.find(first);
    if (its == tensors_.end())
      refuse_description(file_, "troupe.shared has the line " +
                                  config::in_quotes(line) +
                                  ", and not 'NAME = NAME OF A TENSOR'");
    add(name, its->second, buffers_.contains(first),
        its->second.requires_grad());
  }

  /// "encoder.weight = lr=0.01 weight-decay=0"
  void group(const std::string& line) {
    auto [name, numbers] = sides_of(line);
    if (!tensors_.contains(name))
      refuse_description(file_, "troupe.groups has the line " +
                                  config::in_quotes(line) +
                                  ", and not 'NAME OF A TENSOR = NUMBERS'");
    try {
      groups_[name] = config::parse_group_numbers(numbers);
    } catch (const config::bad_value& why) {
      refuse_description(file_, "troupe.groups has the line " +
                                  config::in_quotes(line) + ": " + why.what());
    }
  }

  void add(const std::string& name, const at::Tensor& value, bool is_buffer,
           bool trained) try {
    auto dot = name.rfind('.');
    auto& owner =
      dot == std::string::npos ? *root_ : module_at(name.substr(0, dot));
    auto own = dot == std::string::npos ? name : name.substr(dot + 1);
    if (is_buffer)
      owner.register_buffer(own, value);
    else
      owner.register_parameter(own, value, trained);
  } catch (const c10::Error&) {
    refuse_description(file_,
                       "a tensor cannot be named " + config::in_quotes(name));
  }

  torch::nn::Module& module_at(const std::string& path) {
    auto [at, is_new] = modules_.try_emplace(path);
    if (is_new) {
      auto dot = path.rfind('.');
      auto& above =
        dot == std::string::npos ? *root_ : module_at(path.substr(0, dot));
      at->second = above.register_module(
        dot == std::string::npos ? path : path.substr(dot + 1),
        std::make_shared<torch::nn::Module>("described"));
    }
    return *at->second;
  }

  std::string file_;
  stored_tensors from_;
  std::shared_ptr<torch::nn::Module> root_;
  std::map<std::string, std::shared_ptr<torch::nn::Module>> modules_;
  std::map<std::string, at::Tensor> tensors_;
  std::set<std::string> buffers_; ///< Those of `tensors_`.
  std::map<std::string, config::group_numbers> groups_;
};

class described_network final : public network {
public:
  explicit described_network(const std::string& file)
    : described_network(file, builder{file}) {
    // nop
  }

  torch::nn::Module& module() override { return *module_; }

  at::Tensor forward(const at::Tensor&, const gradient_places&,
                     const std::optional<dropout_key>&) override {
    throw run_error("--network weights:" + file_ +
                    ": is a description, and cannot compute");
  }

  std::map<std::string, config::group_numbers> groups() const override {
    return groups_;
  }

  bool restore() override {
    torch::NoGradGuard no_grad;
    auto from = open_description(file_);
    for (const auto& item : module_->named_parameters())
      fill(from, item.key(), item.value());
    for (const auto& item : module_->named_buffers())
      fill(from, item.key(), item.value());
    return true;
  }

private:
  described_network(const std::string& file, const builder& from)
    : file_(file), module_(from.module()), groups_(from.groups()) {
    // nop
  }

  /// A tensor with several names is in the file under the first.
  void fill(const stored_tensors& from, const std::string& name,
            const at::Tensor& value) {
    const auto* its = from.find(name);
    if (its == nullptr)
      return;
    auto read = at::empty(its->shape, type_of(*its, file_));
    if (read.sizes() != value.sizes())
      throw run_error(file_ + ": was changed while it was in use");
    from.read(*its, 0,
              {static_cast<std::byte*>(read.data_ptr()), read.nbytes()});
    value.copy_(read);
  }

  std::string file_;
  std::shared_ptr<torch::nn::Module> module_;
  std::map<std::string, config::group_numbers> groups_;
};

} // namespace

std::shared_ptr<network> load_description(const std::string& file) {
  return std::make_shared<described_network>(file);
}

std::string digest_of_description(const std::string& file) {
  auto from = open_description(file);
  std::ostringstream text;
  for (const auto& what : from.tensors()) {
    text << what.name << '\n' << what.dtype;
    for (auto extent : what.shape)
      text << ' ' << extent;
    text << '\n';
  }
  for (const auto& [key, value] : from.metadata())
    if (key.starts_with("troupe.") && key != carried_key && key != constant_key)
      text << key << '\n' << value << '\n';
  return to_hex(sha256_of(std::as_bytes(std::span{text.view()})));
}

} // namespace troupe::models
