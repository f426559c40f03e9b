// CUDA's runtime, as far as somebody calls it by name. FAKE_CUDA_REFUSES names
// what it refuses, as in containers: "share", "open", "register".

#include "tests/device/fake/device.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

namespace fake = troupe::testing::fake;

enum status : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  driver_too_old = 35,
  no_device = 100,
  invalid_device = 101,
  not_supported = 801
};

bool is_refused(std::string_view deed) {
  const auto* refused = std::getenv("FAKE_CUDA_REFUSES");
  return refused != nullptr &&
         std::string_view{refused}.find(deed) != std::string_view::npos;
}

} // namespace

extern "C" {

/// As CUDA has it: passed by value.
struct fake_ipc_handle {
  char bytes[64];
};

int cudaGetDeviceCount(int* count) {
  *count = fake::device_count();
  if (std::getenv("FAKE_CUDA_DRIVER") != nullptr)
    return driver_too_old;
  return *count > 0 ? success : no_device;
}

int cudaDriverGetVersion(int* version) {
  const auto* text = std::getenv("FAKE_CUDA_DRIVER");
  *version = text != nullptr ? std::atoi(text) : 13000;
  return success;
}

int cudaGetLastError() {
  return success;
}

const char* cudaGetErrorString(int x) {
  switch (x) {
  case invalid_value:
    return "invalid argument";
  case out_of_memory:
    return "out of memory";
  case driver_too_old:
    return "CUDA driver version is insufficient for CUDA runtime version";
  case invalid_device:
    return "invalid device ordinal";
  case not_supported:
    return "operation not supported";
  default:
    return "unknown error";
  }
}

int cudaDeviceGetPCIBusId(char* to, int size, int device) {
  if (device < 0 || device >= fake::device_count())
    return invalid_device;
  auto name = fake::address_of(device);
  auto length = std::min(name.size(), static_cast<size_t>(size - 1));
  std::memcpy(to, name.data(), length);
  to[length] = '\0';
  return success;
}

int cudaDeviceGetByPCIBusId(int* device, const char* address) {
  for (*device = 0; *device < fake::device_count(); ++*device)
    if (std::string_view{fake::address_of(*device)} == address)
      return success;
  return invalid_device;
}

int cudaMalloc(void** memory, size_t bytes) {
  *memory = fake::take_shared(bytes);
  return *memory == nullptr ? out_of_memory : success;
}

int cudaIpcGetMemHandle(fake_ipc_handle* to, void* memory) {
  if (is_refused("share"))
    return not_supported;
  auto name = fake::name_of_shared(memory);
  if (name.file < 0)
    return invalid_value;
  static_assert(sizeof name <= sizeof *to);
  std::memset(to, 0, sizeof *to);
  std::memcpy(to, &name, sizeof name);
  return success;
}

int cudaIpcOpenMemHandle(void** memory, fake_ipc_handle handle, unsigned) {
  if (is_refused("open"))
    return not_supported;
  fake::shared_name name;
  std::memcpy(static_cast<void*>(&name), &handle, sizeof name);
  *memory = fake::open_shared(name);
  return *memory == nullptr ? invalid_value : success;
}

int cudaIpcCloseMemHandle(void* memory) {
  return fake::close_shared(memory) ? success : invalid_value;
}

int cudaHostRegister(void* memory, size_t bytes, unsigned how) {
  constexpr unsigned read_only = 8;
  if (is_refused("register"))
    return not_supported;
  auto writable = (how & read_only) == 0;
  return fake::pin(memory, bytes, writable) ? success : invalid_value;
}

int cudaHostUnregister(void* memory) {
  return fake::unpin(memory) ? success : invalid_value;
}

} // extern "C"
