#pragma once
// The types of NCCL and of the CUDA runtime that we hand over, declared anew:
// the libraries are opened at run time, and a build without their headers must
// still know how they are called. abi_check.cpp holds this file to the real
// headers where there are some. NCCL's signatures here are the same in its
// headers of 2.14 and of 2.30.

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

/// ncclRedOp_t; those that are made anew have other values.
enum class reduction : unsigned { sum = 0 };

/// ncclScalarResidence_t: where a number lies that is handed over.
enum class residence : unsigned { host_now = 1 };

/// ncclComm_t.
struct comm_object;
using comm = comm_object*;

/// ncclUniqueId: passed by value.
struct unique_id {
  char bytes[128];
};

/// ncclConfig_t as NCCL 2.14 had it, which later ones still read: they take
/// `size` bytes and what `version` knows. The last field is a later one's, set
/// to "not given", in place of padding.
struct config {
  size_t size = sizeof(config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;
};

// -- CUDA runtime -------------------------------------------------------------

/// cudaError_t; other values are errors, whose text the library knows.
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
