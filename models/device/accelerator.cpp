#include "models/device/accelerator.hpp"

#include "config/sources/resolve.hpp"
#include "config/text/failure.hpp"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

namespace troupe::models {

namespace {

/// A function of CUDA's runtime, which LibTorch's CUDA part has brought along;
/// null if it has not.
template <class F>
F* cuda_function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

/// The library beside the one that has this function of LibTorch's.
std::string library_beside_torch() {
  Dl_info found{};
  auto* known = reinterpret_cast<void*>(&at::globalContext);
  if (dladdr(known, &found) == 0 || found.dli_fname == nullptr)
    return "libtorch_cuda.so";
  auto beside =
    std::filesystem::path{found.dli_fname}.parent_path() / "libtorch_cuda.so";
  return exists(beside) ? beside.string() : "libtorch_cuda.so";
}

std::string library_name() {
  const auto* named = std::getenv(config::cuda_library_variable);
  return named != nullptr && *named != '\0' ? named : library_beside_torch();
}

/// Why CUDA finds no device.
std::string why_no_device() {
  auto* count = cuda_function<int(int*)>("cudaGetDeviceCount");
  auto* text = cuda_function<const char*(int)>("cudaGetErrorString");
  int devices = 0;
  if (count != nullptr && text != nullptr)
    if (auto status = count(&devices); status != 0)
      return text(status);
  const auto* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr)
    return "CUDA_VISIBLE_DEVICES=" + std::string{visible} +
           " leaves no device; unset it";
  return "there is no device: see what nvidia-smi says";
}

int open_once() {
  auto name = library_name();
  // Its symbols are for all: CUDA's runtime is asked through them.
  if (dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const auto* why = dlerror();
    throw run_error(
      "a GPU needs LibTorch's CUDA part, which cannot be opened: " +
      std::string{why != nullptr ? why : name.c_str()} +
      "; install it with ./dev setup --with-cuda, name it with "
      "TROUPE_CUDA_LIBRARY, or use --device cpu");
  }
  auto devices = at::globalContext().hasCUDA() ? at::accelerator::deviceCount()
                                               : c10::DeviceIndex{0};
  if (devices == 0)
    throw run_error("no GPU can be used (CUDA: " + why_no_device() +
                    "), or use --device cpu");
  return devices;
}

template <class F>
std::optional<int> version_from(const char* name) {
  auto* ask = cuda_function<F>(name);
  int version = 0;
  if (ask == nullptr || ask(&version) != 0)
    return std::nullopt;
  return version;
}

} // namespace

int open_cuda() {
  static const auto devices = open_once();
  return devices;
}

bool has_cuda() try { return open_cuda() > 0; } catch (const run_error&) {
  return false;
}

c10::Device device_named(const std::string& name) {
  constexpr std::string_view cuda = "cuda:";
  if (name == "cpu")
    return c10::kCPU;
  if (!name.starts_with(cuda) || name.size() == cuda.size() ||
      !std::ranges::all_of(name.substr(cuda.size()), isdigit))
    throw usage_error("device '" + name +
                      "' is not supported; there are: cpu, cuda:N");
  auto index = std::stoi(name.substr(cuda.size()));
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

payload_memory_ptr pinned_memory() {
  class pinned final : public payload_memory {
  public:
    memory_block take_block(size_t bytes) override {
      auto memory = std::make_shared<at::DataPtr>(
        at::getHostAllocator(c10::kCUDA)->allocate(bytes));
      return {memory, static_cast<std::byte*>(memory->get())};
    }
  };
  static const auto out = std::make_shared<pinned>();
  return out;
}

std::string name_of_gpu(int index) {
  // CUDA's runtime opens the driver for itself alone.
  auto* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr)
    return {};
  auto* ask = reinterpret_cast<int (*)(char*, int, int)>(
    dlsym(driver, "cuDeviceGetName"));
  char text[256] = "";
  return ask != nullptr && ask(text, sizeof text, index) == 0 ? text : "";
}

std::vector<accelerator> accelerators() {
  auto* can_reach =
    cuda_function<int(int*, int, int)>("cudaDeviceCanAccessPeer");
  std::vector<accelerator> out;
  auto all = open_cuda();
  for (int i = 0; i < all; ++i) {
    auto [free, memory] =
      at::accelerator::getMemoryInfo(static_cast<c10::DeviceIndex>(i));
    accelerator one{name_of_gpu(i), memory, free};
    for (int other = 0; can_reach != nullptr && other < all; ++other) {
      int reaches = 0;
      if (other != i && can_reach(&reaches, i, other) == 0 && reaches != 0)
        one.reaches.push_back(other);
    }
    out.push_back(std::move(one));
  }
  return out;
}

cuda_versions versions_of_cuda() {
  return {version_from<int(int*)>("cudaDriverGetVersion"),
          version_from<int(int*)>("cudaRuntimeGetVersion")};
}

} // namespace troupe::models
