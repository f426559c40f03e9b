#include "models/device/nccl/library.hpp"

#include "config/sources/resolve.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <type_traits>
#include <vector>

namespace troupe::models::nccl {

namespace {

std::string install_advice() {
  return ": install NCCL " + version_text(least_version) +
         " or a later 2.x, or name its file with " +
         config::nccl_library_variable;
}

loaded no_library(const std::string& why) {
  return {nullptr, "NCCL is off: " + why + install_advice()};
}

std::vector<std::string> files_to_try(const std::string& file) {
  const auto* named = std::getenv(config::nccl_library_variable);
  if (!file.empty())
    return {file};
  if (named != nullptr && *named != '\0')
    return {named};
  return {"libnccl.so.2", "libnccl.so"};
}

} // namespace

std::string version_text(int version) {
  // Up to 2.8 the major number counted thousands.
  auto major = version < 10000 ? version / 1000 : version / 10000;
  auto minor = version < 10000 ? version / 100 % 10 : version / 100 % 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(version % 100);
}

loaded library::load(const std::string& file) {
  void* handle = nullptr;
  std::string name;
  std::string why_not;
  for (const auto& each : files_to_try(file)) {
    handle = dlopen(each.c_str(), RTLD_NOW | RTLD_LOCAL);
    name = each;
    if (handle != nullptr)
      break;
    const auto* reason = dlerror();
    why_not += why_not.empty() ? "cannot open " : "; ";
    why_not += reason != nullptr ? reason : each;
  }
  if (handle == nullptr)
    return no_library(why_not);
  functions table;
  std::string missing;
  for_each_function([&](auto member, const char* symbol) {
    auto* address = dlsym(handle, symbol);
    if (address == nullptr && missing.empty())
      missing = name + " lacks " + symbol;
    using pointer = std::remove_reference_t<decltype(table.*member)>;
    table.*member = reinterpret_cast<pointer>(address);
  });
  if (!missing.empty())
    return no_library(missing);
  int version = 0;
  if (auto code = table.get_version(&version); code != result::success)
    return no_library(name + " does not tell its version (" +
                      table.error_text(code) + ")");
  if (version < least_version || version >= unknown_version)
    return no_library(name + " is NCCL " + version_text(version));
  return {std::make_shared<const library>(table, version), ""};
}

std::string library::explain(result code, comm about) const {
  std::string text = table_.error_text(code);
  const auto* last = table_.last_error(about);
  if (last != nullptr && *last != '\0')
    text += std::string{": "} + last;
  return text;
}

} // namespace troupe::models::nccl
