#include "messages/transport/nccl/library/library.hpp"

#include <dlfcn.h>

#include <type_traits>
#include <utility>

namespace troupe::transport::nccl {

namespace {

const std::string off = "NCCL is off: ";
const std::string install_advice = ": install NCCL " +
                                   version_text(least_version) +
                                   " or a later 2.x, or name its file";

/// A library that was opened, or why none could be.
struct opened {
  void* handle = nullptr;
  std::string name;
  std::string why_not;
};

opened open_first(const std::vector<std::string>& names) {
  opened result;
  for (const auto& name : names) {
    if (auto* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
      return {handle, name, ""};
    const auto* reason = dlerror();
    result.why_not += result.why_not.empty() ? "cannot open " : "; ";
    result.why_not += reason != nullptr ? reason : name;
  }
  if (names.empty())
    result.why_not = "no file was named";
  return result;
}

/// Fills the table; returns the first name that is missing, and where.
std::string resolve(entry_points& table, const opened& nccl,
                    const opened& cuda) {
  std::string missing;
  for_each_entry_point([&](auto member, const char* name, bool is_cuda) {
    const auto& from = is_cuda ? cuda : nccl;
    auto* address = dlsym(from.handle, name);
    if (address == nullptr && missing.empty())
      missing = from.name + " lacks " + name;
    using pointer = std::remove_reference_t<decltype(table.*member)>;
    table.*member = reinterpret_cast<pointer>(address);
  });
  return missing;
}

loaded refuse(const std::string& why) {
  return {nullptr, off + why};
}

} // namespace

std::string version_text(int version) {
  // Up to 2.8 the major number counted thousands.
  auto major = version < 10000 ? version / 1000 : version / 10000;
  auto minor = version < 10000 ? version / 100 % 10 : version / 100 % 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(version % 100);
}

loaded library::load(const library_names& names) {
  auto cuda = open_first(names.cuda);
  if (cuda.handle == nullptr)
    return refuse(cuda.why_not +
                  ": install the CUDA runtime, or name its file");
  auto nccl = open_first(names.nccl);
  if (nccl.handle == nullptr)
    return refuse(nccl.why_not + install_advice);
  entry_points table;
  if (auto missing = resolve(table, nccl, cuda); !missing.empty())
    return refuse(missing + install_advice);
  return adopt(table, nccl.name);
}

loaded library::adopt(const entry_points& table, const std::string& origin) {
  int version = 0;
  if (auto code = table.get_version(&version); code != abi::result::success)
    return refuse(origin + " does not tell its version (" +
                  table.error_text(code) + ")" + install_advice);
  if (version < least_version || version >= unknown_version)
    return refuse(origin + " is NCCL " + version_text(version) +
                  install_advice);
  int devices = 0;
  auto code = table.device_count(&devices);
  if (code != abi::cuda_status::success)
    return refuse("no CUDA device can be used (" +
                  std::string{table.cuda_error_text(code)} +
                  "): see what nvidia-smi says");
  if (devices == 0)
    return refuse("there is no CUDA device: see what nvidia-smi says");
  return {std::make_shared<const library>(table, version, devices), ""};
}

library_ptr library::with_device(int which,
                                 std::shared_ptr<const void> keeps) const {
  auto out = std::make_shared<library>(*this);
  out->device_ = which;
  out->keeps_ = std::move(keeps);
  return out;
}

std::string library::explain(abi::result code, abi::comm about) const {
  std::string text = table_.error_text(code);
  const auto* last = table_.last_error(about);
  if (last != nullptr && *last != '\0')
    text += std::string{": "} + last;
  return text;
}

std::string library::explain(abi::cuda_status code) const {
  return std::string{"CUDA: "} + table_.cuda_error_text(code);
}

} // namespace troupe::transport::nccl
