// Compares abi.hpp and the table of entry points with the real headers;
// compiled only where these exist (TROUPE_NCCL). Nothing here is executed.

#include "messages/transport/nccl/library/library.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <type_traits>

namespace troupe::transport::nccl {

namespace {

// -- is one function called as another? ---------------------------------------

template <class T>
constexpr bool is_number = std::is_enum_v<T> || std::is_integral_v<T>;

/// Is a value of one type handed over as one of the other?
template <class Ours, class Theirs>
constexpr bool
  alike = sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs) &&
          std::is_pointer_v<Ours> ==
            std::is_pointer_v<Theirs>&& std::is_class_v<Ours> ==
            std::is_class_v<Theirs>&& is_number<Ours> == is_number<Theirs>;

template <class Ours, class Theirs>
struct called_alike : std::false_type {};

template <class R, class... Xs, class S, class... Ys>
requires(sizeof...(Xs) == sizeof...(Ys)) //
  struct called_alike<R (*)(Xs...), S (*)(Ys...)>
  : std::bool_constant<alike<R, S> && (alike<Xs, Ys> && ...)> {
};

#define TROUPE_CALLED_ALIKE(member, name)                                      \
  static_assert(                                                               \
    called_alike<decltype(entry_points::member), decltype(&(name))>::value)

TROUPE_CALLED_ALIKE(get_version, ncclGetVersion);
TROUPE_CALLED_ALIKE(error_text, ncclGetErrorString);
TROUPE_CALLED_ALIKE(last_error, ncclGetLastError);
TROUPE_CALLED_ALIKE(get_unique_id, ncclGetUniqueId);
TROUPE_CALLED_ALIKE(comm_init, ncclCommInitRankConfig);
TROUPE_CALLED_ALIKE(comm_async_error, ncclCommGetAsyncError);
TROUPE_CALLED_ALIKE(comm_finalize, ncclCommFinalize);
TROUPE_CALLED_ALIKE(comm_destroy, ncclCommDestroy);
TROUPE_CALLED_ALIKE(comm_abort, ncclCommAbort);
TROUPE_CALLED_ALIKE(group_start, ncclGroupStart);
TROUPE_CALLED_ALIKE(group_end, ncclGroupEnd);
TROUPE_CALLED_ALIKE(send, ncclSend);
TROUPE_CALLED_ALIKE(recv, ncclRecv);
TROUPE_CALLED_ALIKE(reduce, ncclReduce);
TROUPE_CALLED_ALIKE(make_scaled_sum, ncclRedOpCreatePreMulSum);
TROUPE_CALLED_ALIKE(end_scaled_sum, ncclRedOpDestroy);
TROUPE_CALLED_ALIKE(broadcast, ncclBroadcast);
TROUPE_CALLED_ALIKE(cuda_error_text, cudaGetErrorString);
TROUPE_CALLED_ALIKE(device_count, cudaGetDeviceCount);
TROUPE_CALLED_ALIKE(get_device, cudaGetDevice);
TROUPE_CALLED_ALIKE(set_device, cudaSetDevice);
TROUPE_CALLED_ALIKE(stream_create, cudaStreamCreateWithFlags);
TROUPE_CALLED_ALIKE(stream_destroy, cudaStreamDestroy);
TROUPE_CALLED_ALIKE(stream_query, cudaStreamQuery);
TROUPE_CALLED_ALIKE(stream_wait_event, cudaStreamWaitEvent);
TROUPE_CALLED_ALIKE(event_create, cudaEventCreateWithFlags);
TROUPE_CALLED_ALIKE(event_destroy, cudaEventDestroy);
TROUPE_CALLED_ALIKE(event_record, cudaEventRecord);
TROUPE_CALLED_ALIKE(event_query, cudaEventQuery);
// cudaMalloc is overloaded by a template of the headers for C++.
static_assert(called_alike<decltype(entry_points::memory_take),
                           cudaError_t (*)(void**, size_t)>::value);
TROUPE_CALLED_ALIKE(memory_give, cudaFree);
TROUPE_CALLED_ALIKE(memory_copy, cudaMemcpyAsync);

#undef TROUPE_CALLED_ALIKE

// -- do the numbers mean the same? --------------------------------------------

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return std::is_same_v<std::underlying_type_t<Ours>,
                        std::underlying_type_t<Theirs>> &&
         static_cast<unsigned>(ours) == static_cast<unsigned>(theirs);
}

static_assert(same(abi::result::success, ncclSuccess));
static_assert(same(abi::result::unhandled_cuda_error, ncclUnhandledCudaError));
static_assert(same(abi::result::system_error, ncclSystemError));
static_assert(same(abi::result::internal_error, ncclInternalError));
static_assert(same(abi::result::invalid_argument, ncclInvalidArgument));
static_assert(same(abi::result::invalid_usage, ncclInvalidUsage));
static_assert(same(abi::result::remote_error, ncclRemoteError));
static_assert(same(abi::result::in_progress, ncclInProgress));
static_assert(same(abi::data_type::float16, ncclFloat16));
static_assert(same(abi::data_type::float32, ncclFloat32));
static_assert(same(abi::data_type::float64, ncclFloat64));
static_assert(same(abi::data_type::bfloat16, ncclBfloat16));
static_assert(same(abi::reduction::sum, ncclSum));
static_assert(same(abi::residence::host_now, ncclScalarHostImmediate));
static_assert(same(abi::cuda_status::success, cudaSuccess));
static_assert(same(abi::cuda_status::not_ready, cudaErrorNotReady));
static_assert(same(abi::copy_kind::by_address, cudaMemcpyDefault));
static_assert(abi::stream_non_blocking == cudaStreamNonBlocking);
static_assert(abi::event_without_timing == cudaEventDisableTiming);

// -- do the structures lie the same? ------------------------------------------

static_assert(sizeof(abi::unique_id) == NCCL_UNIQUE_ID_BYTES);
static_assert(std::is_trivially_copyable_v<abi::unique_id>);

// Ours may be shorter than theirs: NCCL reads it as that of an older release.
static_assert(sizeof(abi::config) <= sizeof(ncclConfig_t));
static_assert(sizeof(abi::config) ==
              offsetof(abi::config, cga_cluster_size) + sizeof(int));
static_assert(offsetof(abi::config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(abi::config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(abi::config, version) ==
              offsetof(ncclConfig_t, version));
static_assert(offsetof(abi::config, blocking) ==
              offsetof(ncclConfig_t, blocking));
static_assert(offsetof(abi::config, cga_cluster_size) ==
              offsetof(ncclConfig_t, cgaClusterSize));
constexpr ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
static_assert(abi::config{}.magic == theirs.magic);
static_assert(abi::config{}.version <= theirs.version);
static_assert(abi::config{}.cga_cluster_size == NCCL_CONFIG_UNDEF_INT);

} // namespace

} // namespace troupe::transport::nccl
