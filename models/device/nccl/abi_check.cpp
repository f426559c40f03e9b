// Compares abi.hpp with the real header; compiled only where that exists
// (TROUPE_NCCL). Nothing here is executed.

#include "models/device/nccl/abi.hpp"

#include <nccl.h>

#include <type_traits>

namespace troupe::models::nccl {

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
    called_alike<decltype(functions::member), decltype(&(name))>::value)

TROUPE_CALLED_ALIKE(get_version, ncclGetVersion);
TROUPE_CALLED_ALIKE(error_text, ncclGetErrorString);
TROUPE_CALLED_ALIKE(last_error, ncclGetLastError);
TROUPE_CALLED_ALIKE(get_unique_id, ncclGetUniqueId);
TROUPE_CALLED_ALIKE(comm_init, ncclCommInitRankConfig);
TROUPE_CALLED_ALIKE(comm_async_error, ncclCommGetAsyncError);
TROUPE_CALLED_ALIKE(comm_abort, ncclCommAbort);
TROUPE_CALLED_ALIKE(send, ncclSend);
TROUPE_CALLED_ALIKE(receive, ncclRecv);
TROUPE_CALLED_ALIKE(reduce_scatter, ncclReduceScatter);
TROUPE_CALLED_ALIKE(all_gather, ncclAllGather);
#undef TROUPE_CALLED_ALIKE

// -- are numbers and offsets the same? ----------------------------------------

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<unsigned>(ours) == static_cast<unsigned>(theirs);
}

static_assert(same(result::success, ncclSuccess));
static_assert(same(result::unhandled_cuda_error, ncclUnhandledCudaError));
static_assert(same(result::system_error, ncclSystemError));
static_assert(same(result::internal_error, ncclInternalError));
static_assert(same(result::invalid_argument, ncclInvalidArgument));
static_assert(same(result::invalid_usage, ncclInvalidUsage));
static_assert(same(result::remote_error, ncclRemoteError));
static_assert(same(result::in_progress, ncclInProgress));
static_assert(same(data_type::float16, ncclFloat16));
static_assert(same(data_type::float32, ncclFloat32));
static_assert(same(data_type::float64, ncclFloat64));
static_assert(same(data_type::bfloat16, ncclBfloat16));
static_assert(same(reduction::sum, ncclSum));
static_assert(sizeof(unique_id) == NCCL_UNIQUE_ID_BYTES);
static_assert(offsetof(comm_config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(comm_config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(comm_config, version) ==
              offsetof(ncclConfig_t, version));
static_assert(offsetof(comm_config, blocking) ==
              offsetof(ncclConfig_t, blocking));
static_assert(offsetof(comm_config, cga_cluster_size) ==
              offsetof(ncclConfig_t, cgaClusterSize));

} // namespace

} // namespace troupe::models::nccl
