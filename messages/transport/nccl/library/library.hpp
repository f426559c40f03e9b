#pragma once
// NCCL and the CUDA runtime, opened at run time: one program serves machines
// with and without them. If something is missing, a line says so; that is no
// failure.
//
// Loaded once per process and shared. A library is never unloaded, because NCCL
// has threads of its own. The table is immutable, so any thread may use it; the
// caller must meet what the entry points demand of threads and devices.

#include "messages/transport/nccl/library/abi.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::transport::nccl {

/// The entry points that we use. Tests put in their own.
struct entry_points {
  // NCCL
  abi::result (*get_version)(int*) = nullptr;
  const char* (*error_text)(abi::result) = nullptr;
  const char* (*last_error)(abi::comm) = nullptr;
  abi::result (*get_unique_id)(abi::unique_id*) = nullptr;
  abi::result (*comm_init)(abi::comm*, int size, abi::unique_id, int rank,
                           abi::config*) = nullptr;
  abi::result (*comm_async_error)(abi::comm, abi::result*) = nullptr;
  abi::result (*comm_finalize)(abi::comm) = nullptr;
  abi::result (*comm_destroy)(abi::comm) = nullptr;
  abi::result (*comm_abort)(abi::comm) = nullptr;
  abi::result (*group_start)() = nullptr;
  abi::result (*group_end)() = nullptr;
  abi::result (*send)(const void*, size_t, abi::data_type, int peer, abi::comm,
                      abi::stream) = nullptr;
  abi::result (*recv)(void*, size_t, abi::data_type, int peer, abi::comm,
                      abi::stream) = nullptr;
  abi::result (*reduce)(const void*, void*, size_t, abi::data_type,
                        abi::reduction, int root, abi::comm,
                        abi::stream) = nullptr;
  abi::result (*make_scaled_sum)(abi::reduction*, void* scale, abi::data_type,
                                 abi::residence, abi::comm) = nullptr;
  abi::result (*end_scaled_sum)(abi::reduction, abi::comm) = nullptr;
  abi::result (*broadcast)(const void*, void*, size_t, abi::data_type, int root,
                           abi::comm, abi::stream) = nullptr;
  // CUDA runtime
  const char* (*cuda_error_text)(abi::cuda_status) = nullptr;
  abi::cuda_status (*device_count)(int*) = nullptr;
  abi::cuda_status (*get_device)(int*) = nullptr;
  abi::cuda_status (*set_device)(int) = nullptr;
  abi::cuda_status (*stream_create)(abi::stream*, unsigned flags) = nullptr;
  abi::cuda_status (*stream_destroy)(abi::stream) = nullptr;
  abi::cuda_status (*stream_query)(abi::stream) = nullptr;
  abi::cuda_status (*stream_wait_event)(abi::stream, abi::event,
                                        unsigned flags) = nullptr;
  abi::cuda_status (*event_create)(abi::event*, unsigned flags) = nullptr;
  abi::cuda_status (*event_destroy)(abi::event) = nullptr;
  abi::cuda_status (*event_record)(abi::event, abi::stream) = nullptr;
  abi::cuda_status (*event_query)(abi::event) = nullptr;
  abi::cuda_status (*memory_take)(void**, size_t) = nullptr;
  abi::cuda_status (*memory_give)(void*) = nullptr;
  abi::cuda_status (*memory_copy)(void* to, const void* from, size_t bytes,
                                  abi::copy_kind, abi::stream) = nullptr;
};

/// Calls `f(member, name, is_cuda)` for each entry point, with its name in the
/// library.
template <class F>
void for_each_entry_point(F&& f) {
  using e = entry_points;
  f(&e::get_version, "ncclGetVersion", false);
  f(&e::error_text, "ncclGetErrorString", false);
  f(&e::last_error, "ncclGetLastError", false);
  f(&e::get_unique_id, "ncclGetUniqueId", false);
  f(&e::comm_init, "ncclCommInitRankConfig", false);
  f(&e::comm_async_error, "ncclCommGetAsyncError", false);
  f(&e::comm_finalize, "ncclCommFinalize", false);
  f(&e::comm_destroy, "ncclCommDestroy", false);
  f(&e::comm_abort, "ncclCommAbort", false);
  f(&e::group_start, "ncclGroupStart", false);
  f(&e::group_end, "ncclGroupEnd", false);
  f(&e::send, "ncclSend", false);
  f(&e::recv, "ncclRecv", false);
  f(&e::reduce, "ncclReduce", false);
  f(&e::make_scaled_sum, "ncclRedOpCreatePreMulSum", false);
  f(&e::end_scaled_sum, "ncclRedOpDestroy", false);
  f(&e::broadcast, "ncclBroadcast", false);
  f(&e::cuda_error_text, "cudaGetErrorString", true);
  f(&e::device_count, "cudaGetDeviceCount", true);
  f(&e::get_device, "cudaGetDevice", true);
  f(&e::set_device, "cudaSetDevice", true);
  f(&e::stream_create, "cudaStreamCreateWithFlags", true);
  f(&e::stream_destroy, "cudaStreamDestroy", true);
  f(&e::stream_query, "cudaStreamQuery", true);
  f(&e::stream_wait_event, "cudaStreamWaitEvent", true);
  f(&e::event_create, "cudaEventCreateWithFlags", true);
  f(&e::event_destroy, "cudaEventDestroy", true);
  f(&e::event_record, "cudaEventRecord", true);
  f(&e::event_query, "cudaEventQuery", true);
  f(&e::memory_take, "cudaMalloc", true);
  f(&e::memory_give, "cudaFree", true);
  f(&e::memory_copy, "cudaMemcpyAsync", true);
}

/// The oldest release that we accept, and the first one that is too new.
inline constexpr int least_version = 21800;
inline constexpr int unknown_version = 30000;

/// "2.28.9" for NCCL's number 22809.
std::string version_text(int version);

/// File names to try; the first that opens is used. A name without a slash is
/// looked up by the system, which also finds a library that is already loaded,
/// for example by LibTorch's CUDA part.
struct library_names {
  std::vector<std::string> nccl = {"libnccl.so.2", "libnccl.so"};
  std::vector<std::string> cuda = {"libcudart.so.13", "libcudart.so.12",
                                   "libcudart.so"};
};

class library;
using library_ptr = std::shared_ptr<const library>;

/// A library, or the line that says why NCCL cannot be used and what to do.
struct loaded {
  library_ptr library;
  std::string why_not;
};

class library {
public:
  library(const entry_points& table, int version, int devices)
    : table_(table), version_(version), devices_(devices) {
    // nop
  }

  /// Opens both libraries and checks them as `adopt` does.
  static loaded load(const library_names& names = {});

  /// Checks the version, and that there is a device. `origin` tells in error
  /// lines where the table came from.
  static loaded adopt(const entry_points& table, const std::string& origin);

  const entry_points& call() const { return table_; }

  /// The same library with one of its devices chosen; `keeps` is held as long.
  std::shared_ptr<const library>
  with_device(int which, std::shared_ptr<const void> keeps) const;

  /// The device that this process uses; nothing if none was chosen.
  std::optional<int> device() const { return device_; }

  int version() const { return version_; }
  int devices() const { return devices_; }

  /// "remote error: peer closed", and NCCL's last message about it.
  std::string explain(abi::result code, abi::comm about = nullptr) const;
  std::string explain(abi::cuda_status code) const;

private:
  entry_points table_;
  int version_;
  int devices_;
  std::optional<int> device_;
  std::shared_ptr<const void> keeps_; ///< For the device.
};

} // namespace troupe::transport::nccl
