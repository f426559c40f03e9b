#pragma once
// Functions of CUDA's runtime for which LibTorch has no neutral form: memory
// that other processes open, and memory of the host that GPUs copy to. The
// runtime is the one that LibTorch's CUDA part has brought along; its headers
// are not needed. Thread-safe.

#include <cstddef>
#include <string>

namespace troupe::models {

/// cudaIpcMemHandle_t: by which another process opens memory of a GPU. Passed
/// by value.
struct ipc_handle {
  std::byte bytes[64];
};

static_assert(sizeof(ipc_handle) == 64);

/// Each returns a cudaError_t, 0 if all is well.
struct cuda_runtime {
  int (*allocate)(void**, size_t);               ///< cudaMalloc
  int (*handle_of)(ipc_handle*, void*);          ///< cudaIpcGetMemHandle
  int (*register_host)(void*, size_t, unsigned); ///< cudaHostRegister
  int (*unregister_host)(void*);                 ///< cudaHostUnregister
  int (*device_at)(int*, const char*);           ///< by PCI address
  int (*take_last_error)();                      ///< cudaGetLastError
  const char* (*text_of)(int);                   ///< cudaGetErrorString

  /// The runtime of this process. @pre open_cuda()
  /// @throws run_error if it hides one of these functions.
  static const cuda_runtime& get();

  /// Throws run_error if a call has failed. CUDA would report the error again
  /// to the next one who asks, so it is taken.
  void require(int status, const std::string& action) const;
};

} // namespace troupe::models
