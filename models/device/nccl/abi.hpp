#pragma once
// The types of NCCL that we hand over, declared again: the library is opened at
// run time, and a build without its header must still be able to call it.
// abi_check.cpp compares this file with the real header where it is installed.
// Plain values.

#include <climits>
#include <cstddef>
#include <cstdint>

namespace troupe::models::nccl {

/// ncclResult_t.
enum class result : unsigned {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7
};

/// Whether it is no error.
constexpr bool is_fine(result x) {
  return x == result::success || x == result::in_progress;
}

/// ncclDataType_t, as far as we use it.
enum class data_type : unsigned {
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9
};

constexpr size_t size_of(data_type type) {
  return type == data_type::float64 ? 8 : type == data_type::float32 ? 4 : 2;
}

/// ncclRedOp_t.
enum class reduction : unsigned { sum = 0 };

/// ncclComm_t.
struct comm_object;
using comm = comm_object*;

/// cudaStream_t, as c10::Stream::native_handle gives it.
using stream = void*;

/// ncclUniqueId: passed by value.
struct unique_id {
  char bytes[128];
};

/// ncclConfig_t as of NCCL 2.14. Later releases still read it: they take `size`
/// bytes and the fields that `version` knows. The last field belongs to a later
/// release; it is set to "not given" and stands in place of padding.
struct comm_config {
  size_t size = sizeof(comm_config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;
};

/// The functions that we call.
struct functions {
  result (*get_version)(int*) = nullptr;
  const char* (*error_text)(result) = nullptr;
  const char* (*last_error)(comm) = nullptr;
  result (*get_unique_id)(unique_id*) = nullptr;
  result (*comm_init)(comm*, int size, unique_id, int rank,
                      comm_config*) = nullptr;
  result (*comm_async_error)(comm, result*) = nullptr;
  result (*comm_abort)(comm) = nullptr;
  result (*send)(const void*, size_t, data_type, int peer, comm,
                 stream) = nullptr;
  result (*receive)(void*, size_t, data_type, int peer, comm, stream) = nullptr;
  result (*reduce_scatter)(const void*, void*, size_t, data_type, reduction,
                           comm, stream) = nullptr;
  result (*all_gather)(const void*, void*, size_t, data_type, comm,
                       stream) = nullptr;
};

/// Calls `f(member, name)` for each function, with its name in the library.
template <class F>
void for_each_function(F&& f) {
  f(&functions::get_version, "ncclGetVersion");
  f(&functions::error_text, "ncclGetErrorString");
  f(&functions::last_error, "ncclGetLastError");
  f(&functions::get_unique_id, "ncclGetUniqueId");
  f(&functions::comm_init, "ncclCommInitRankConfig");
  f(&functions::comm_async_error, "ncclCommGetAsyncError");
  f(&functions::comm_abort, "ncclCommAbort");
  f(&functions::send, "ncclSend");
  f(&functions::receive, "ncclRecv");
  f(&functions::reduce_scatter, "ncclReduceScatter");
  f(&functions::all_gather, "ncclAllGather");
}

} // namespace troupe::models::nccl
