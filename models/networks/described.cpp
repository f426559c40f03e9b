#include "models/networks/described.hpp"

#include "config/patterns/param_groups.hpp"
#include "config/text/failure.hpp"
#include "config/text/input_file.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "config/values/script.hpp"
#include "models/storage/described_tensors.hpp"
#include "models/storage/durable_file.hpp"
#include "models/storage/stored_tensors.hpp"

#include <ATen/ops/empty.h>
#include <sys/mman.h>
#include <torch/nn/module.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <utility>

namespace troupe::models {

namespace {

[[noreturn]] void refuse_description(const std::string& file,
                                     const std::string& why) {
  throw run_error(file + ": describes no network: " + why);
}

stored_tensors open_description(const std::string& file) {
  return {open_file(file), file};
}

at::ScalarType type_of(const named_tensor& tensor, const std::string& file) {
  if (tensor.dtype == "F32")
    return at::kFloat;
  if (tensor.dtype == "F64")
    return at::kDouble;
  if (tensor.dtype == "I64")
    return at::kLong;
  refuse_description(file, "tensor " + config::shown(tensor.name) + " is " +
                             tensor.dtype +
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
    auto constant = described_constants(from_.tensors(), from_.metadata());
    for (const auto& what : from_.tensors()) {
      if (constant.contains(what.name)) {
        constants_.push_back({what.name, what.dtype, what.shape, ""});
        continue;
      }
      auto value = room_for(what);
      auto is_buffer =
        statistics.contains(what.name) || value.dtype() == at::kLong;
      add(what.name, value, is_buffer, !frozen.contains(what.name));
      tensors_.emplace(what.name, value);
      if (is_buffer)
        buffers_.insert(what.name);
    }
    for (const auto& line :
         description_lines(from_.metadata(), "troupe.shared"))
      share(line);
    for (const auto& line :
         description_lines(from_.metadata(), "troupe.groups"))
      group(line);
    if (root_->parameters().empty())
      refuse_description(file_, "it has no tensor that could be trained");
  }

  std::shared_ptr<torch::nn::Module> module() const { return root_; }

  const std::map<std::string, config::group_numbers>& groups() const {
    return groups_;
  }

  const std::vector<constant_tensor>& constants() const { return constants_; }

private:
  /// A peer may describe more than there is memory for.
  at::Tensor room_for(const named_tensor& tensor) const try {
    return at::empty(tensor.shape, type_of(tensor, file_));
  } catch (const c10::Error&) {
    refuse_description(file_, "there is no memory for tensor " +
                                config::shown(tensor.name));
  }

  /// The tensors that a line of the metadata names, which must be there.
  std::set<std::string> names(const std::string& key) const {
    auto out = described_names(from_.metadata(), key);
    for (const auto& name : out)
      if (from_.find(name) == nullptr)
        refuse_description(file_, key + " names " + config::in_quotes(name) +
                                    ", which is not among its tensors");
    return out;
  }

  /// "decoder.weight = embedding.weight"
  void share(const std::string& line) {
    std::string_view rest{line};
    auto name = take_name(rest);
    auto first = take_name(rest);
    if (auto known =
          std::ranges::find(constants_, first, &constant_tensor::name);
        known != constants_.end()) {
      auto other = *known;
      other.name = name;
      other.same_as = first;
      constants_.push_back(std::move(other));
      return;
    }
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
    std::string_view numbers{line};
    auto name = take_name(numbers);
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
  std::vector<constant_tensor> constants_;
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

  std::vector<constant_tensor> constants() const override { return constants_; }

  void read_constant(const std::string& name,
                     std::span<std::byte> to) override {
    auto from = open_description(file_);
    const auto* its = from.find(name);
    if (its == nullptr || bytes_of(*its) != to.size())
      throw run_error(file_ + ": was changed while it was in use");
    from.read(*its, 0, to);
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
    : file_(file), module_(from.module()), groups_(from.groups()),
      constants_(from.constants()) {
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
  std::vector<constant_tensor> constants_;
};

} // namespace

std::shared_ptr<network> load_description(const std::string& file) {
  return std::make_shared<described_network>(file);
}

described_file description_without_values(const std::string& network) {
  if (!config::is_described(network))
    return {};
  auto name = config::network_file(network);
  auto file = open_file(name);
  uint64_t length = 0;
  described_file out{std::string(sizeof length, 0), file->size()};
  auto read = [&](size_t first) {
    read_exactly(*file, first,
                 std::as_writable_bytes(std::span{out.head}.subspan(first)),
                 name);
  };
  read(0);
  std::memcpy(&length, out.head.data(), sizeof length);
  check_header_length(length, out.bytes - sizeof length, name);
  out.head.resize(sizeof length + length);
  read(sizeof length);
  return out;
}

std::string keep_description(const described_file& source,
                             const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, int> kept; // Files, by what they begin with.
  std::lock_guard guard{mutex};
  auto known = kept.find(source.head);
  if (known == kept.end()) {
    constexpr size_t longest_name = 200; // The kernel allows 249 bytes.
    auto file = ::memfd_create(
      (name.substr(0, longest_name) + ".safetensors").c_str(), MFD_CLOEXEC);
    auto size = static_cast<ssize_t>(source.head.size());
    if (file < 0 ||
        ::pwrite(file, source.head.data(), source.head.size(), 0) != size ||
        ::ftruncate(file, static_cast<off_t>(source.bytes)) != 0) {
      auto why = std::system_category().message(errno);
      if (file >= 0)
        ::close(file);
      throw run_error("network " + name +
                      ": no memory for its description: " + why);
    }
    known = kept.emplace(source.head, file).first;
  }
  return config::described_by("/proc/self/fd/" + std::to_string(known->second));
}

std::string digest_of_description(const std::string& file) {
  auto from = open_description(file);
  return digest_of_described(from.tensors(), from.metadata());
}

} // namespace troupe::models
