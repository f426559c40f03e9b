#pragma once
// The types of NCCL and of the CUDA runtime that we pass to them, declared
// again: the libraries are opened at run time, and a build without their
// headers must still be able to call them. abi_check.cpp compares this file
// with the real headers where they are installed. NCCL's signatures used here
// are the same in its headers of 2.14 and of 2.30. Plain values.

#include <climits>
#include <cstddef>

namespace troupe::transport::nccl::abi {

// -- NCCL ---------------------------------------------------------------------

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

/// ncclDataType_t, as far as we use it.
enum class data_type : unsigned {
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9
};

/// ncclRedOp_t; operations created at run time have other values.
enum class reduction : unsigned { sum = 0 };

/// ncclScalarResidence_t: where a scalar argument lies.
enum class residence : unsigned { host_now = 1 };

/// ncclComm_t.
struct comm_object;
using comm = comm_object*;

/// ncclUniqueId: passed by value.
struct unique_id {
  char bytes[128];
};

/// ncclConfig_t as of NCCL 2.14. Later releases still read it: they take `size`
/// bytes and the fields that `version` knows. The last field belongs to a later
/// release; it is set to "not given" and stands in place of padding.
struct config {
  size_t size = sizeof(config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;
};

// -- CUDA runtime -------------------------------------------------------------

/// cudaError_t; all other values are errors, for which CUDA has a text.
enum class cuda_status : unsigned {
  success = 0,
  not_ready = 600 ///< A query's answer: the work is not done.
};

/// cudaMemcpyKind.
enum class copy_kind : unsigned { by_address = 4 };

/// Flags of cudaStreamCreateWithFlags and cudaEventCreateWithFlags.
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_without_timing = 2;

/// cudaStream_t.
struct stream_object;
using stream = stream_object*;

/// cudaEvent_t.
struct event_object;
using event = event_object*;

} // namespace troupe::transport::nccl::abi
