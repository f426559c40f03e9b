#include "models/device/cuda_runtime.hpp"

#include "config/text/failure.hpp"
#include "models/device/accelerator.hpp"

namespace troupe::models {

namespace {

template <class F>
void find(F*& function, const char* name) {
  function = reinterpret_cast<F*>(find_in_cuda(name));
  if (function == nullptr)
    throw run_error("CUDA's runtime, as LibTorch has brought it along, hides "
                    "its function " +
                    std::string{name});
}

cuda_runtime find_all() {
  cuda_runtime out{};
  find(out.allocate, "cudaMalloc");
  find(out.handle_of, "cudaIpcGetMemHandle");
  find(out.register_host, "cudaHostRegister");
  find(out.unregister_host, "cudaHostUnregister");
  find(out.device_at, "cudaDeviceGetByPCIBusId");
  find(out.take_last_error, "cudaGetLastError");
  find(out.text_of, "cudaGetErrorString");
  return out;
}

} // namespace

const cuda_runtime& cuda_runtime::get() {
  static const auto found = find_all();
  return found;
}

void cuda_runtime::require(int status, const std::string& action) const {
  if (status == 0)
    return;
  take_last_error();
  throw run_error(action + " failed: " + text_of(status));
}

} // namespace troupe::models
