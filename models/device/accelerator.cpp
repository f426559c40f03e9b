#include "models/device/accelerator.hpp"

#include "config/sources/resolve.hpp"
#include "config/text/failure.hpp"
#include "models/device/cuda_runtime.hpp"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

namespace troupe::models {

namespace {

/// LibTorch's CUDA part; null before it is opened.
void* opened = nullptr;

template <class F>
F* cuda_function(const char* name) {
  return reinterpret_cast<F*>(find_in_cuda(name));
}

/// A function of the driver; null if it has none such. CUDA's runtime opens the
/// driver for itself alone.
template <class F>
F* driver_function(const char* name) {
  auto* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  return driver == nullptr ? nullptr
                           : reinterpret_cast<F*>(dlsym(driver, name));
}

/// The library beside the one that has this function of LibTorch's. A link
/// leads to a folder with its other libraries.
std::string library_beside_torch() {
  Dl_info found{};
  auto* known = reinterpret_cast<void*>(&at::globalContext);
  if (dladdr(known, &found) == 0 || found.dli_fname == nullptr)
    return "libtorch_cuda.so";
  auto beside =
    std::filesystem::path{found.dli_fname}.parent_path() / "libtorch_cuda.so";
  return exists(beside) ? canonical(beside).string() : "libtorch_cuda.so";
}

std::string library_name() {
  const auto* named = std::getenv(config::cuda_library_variable);
  return named != nullptr && *named != '\0' ? named : library_beside_torch();
}

/// The release of PyTorch that has this library, from the file that it lays
/// beside its libraries' folder; empty if there is none.
std::string release_of(const std::filesystem::path& library) {
  constexpr std::string_view begin = "__version__ = '";
  if (!library.has_parent_path()) // The loader looks for it.
    return {};
  std::ifstream in{library.parent_path() / ".." / "version.py"};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(begin))
      return line.substr(begin.size(),
                         line.find('\'', begin.size()) - begin.size());
  return {};
}

/// The release that this program is built with.
std::string own_release() {
  return std::to_string(TORCH_VERSION_MAJOR) + "." +
         std::to_string(TORCH_VERSION_MINOR) + "." +
         std::to_string(TORCH_VERSION_PATCH);
}

/// Whatever is behind the second point may differ.
std::string without_patch(const std::string& release) {
  return release.substr(0, release.find('.', release.find('.') + 1));
}

/// A library of another release may open, and then compute anything.
void require_own_release(const std::string& library) {
  auto found = release_of(library);
  if (!found.empty() && without_patch(found) != without_patch(own_release()))
    throw run_error("a GPU needs LibTorch's CUDA part of release " +
                    own_release() + ", which this program is built with, but " +
                    library + " is of " + found +
                    "; name another one with TROUPE_CUDA_LIBRARY, or use "
                    "--device cpu");
}

void open_library() {
  auto name = library_name();
  require_own_release(name);
  // NCCL's library is then found as the one that LibTorch has brought along.
  opened = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (opened != nullptr)
    return;
  const auto* why = dlerror();
  throw run_error("a GPU needs LibTorch's CUDA part, which cannot be opened: " +
                  std::string{why != nullptr ? why : name.c_str()} +
                  "; install PyTorch " + own_release() +
                  " for CUDA and name its libtorch_cuda.so with "
                  "TROUPE_CUDA_LIBRARY, or use --device cpu");
}

// Of CUDA's runtime:
constexpr int driver_too_old = 35;
constexpr int no_device = 100;

/// Why CUDA finds no device; empty if it finds some. LibTorch, when asked,
/// would print a warning of several lines.
std::string why_no_device() {
  auto* count = cuda_function<int(int*)>("cudaGetDeviceCount");
  auto* text = cuda_function<const char*(int)>("cudaGetErrorString");
  if (count == nullptr || text == nullptr)
    return "its runtime cannot be asked";
  int devices = 0;
  auto status = count(&devices);
  if (status == 0 && devices > 0)
    return {};
  const auto* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  auto none = status == 0 || status == no_device;
  if (none && visible != nullptr)
    return "CUDA_VISIBLE_DEVICES=" + std::string{visible} +
           " leaves no device; unset it";
  if (none)
    return "there is no device; see what nvidia-smi says";
  auto versions = versions_of_cuda();
  if (status == driver_too_old && versions.driver == 0)
    return "there is no driver; install NVIDIA's";
  if (status == driver_too_old)
    return "the driver is for CUDA " + text_of_cuda(versions.driver) +
           ", older than the runtime " + text_of_cuda(versions.runtime) +
           "; install a newer driver";
  return text(status);
}

int open_once() {
  open_library();
  if (auto why = why_no_device(); !why.empty())
    throw run_error("no GPU can be used (CUDA: " + why +
                    "), or use --device cpu");
  if (!at::globalContext().hasCUDA())
    throw run_error("no GPU can be used: LibTorch does not see its CUDA part; "
                    "use --device cpu");
  return at::accelerator::deviceCount();
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

void* find_in_cuda(const char* name) {
  return dlsym(opened, name);
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

std::shared_ptr<const void> pin_memory(std::span<std::byte> mapped,
                                       bool writable) try {
  constexpr unsigned for_all_gpus = 1;
  constexpr unsigned read_only = 8;
  const auto& cuda = cuda_runtime::get();
  auto how = writable ? for_all_gpus : for_all_gpus | read_only;
  if (cuda.register_host(mapped.data(), mapped.size(), how) != 0) {
    cuda.take_last_error(); // Or LibTorch would take it for one of its own.
    return nullptr;
  }
  return {mapped.data(), [&cuda](std::byte* memory) {
            if (cuda.unregister_host(memory) != 0)
              cuda.take_last_error();
          }};
} catch (const run_error&) {
  return nullptr;
}

std::string name_of_gpu(int index) {
  auto* ask = driver_function<int(char*, int, int)>("cuDeviceGetName");
  char text[256] = "";
  return ask != nullptr && ask(text, sizeof text, index) == 0 ? text : "";
}

std::string id_of_gpu(int index) {
  // The later of the two tells apart the parts of a GPU that is divided.
  auto* ask = driver_function<int(unsigned char*, int)>("cuDeviceGetUuid_v2");
  unsigned char id[16] = {};
  if (ask == nullptr || ask(id, index) != 0)
    return {};
  std::string out;
  constexpr const char* digits = "0123456789abcdef";
  for (auto byte : id)
    (out += digits[byte >> 4]) += digits[byte & 15];
  return out;
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

std::string text_of_cuda(std::optional<int> version) {
  return version ? std::to_string(*version / 1000) + "." +
                     std::to_string(*version % 1000 / 10)
                 : "unknown";
}

cuda_versions versions_of_cuda() {
  return {version_from<int(int*)>("cudaDriverGetVersion"),
          version_from<int(int*)>("cudaRuntimeGetVersion")};
}

} // namespace troupe::models
