#include "tests/nccl/fake_nccl.hpp"

#include "tests/nccl/fake_hub.hpp"

#include <cstdlib>
#include <cstring>

#ifdef FAKE_LACKS_ABORT
#define FAKE_ABORT_VISIBILITY __attribute__((visibility("hidden")))
#else
#define FAKE_ABORT_VISIBILITY
#endif

namespace abi = troupe::transport::nccl::abi;
using namespace fake;

namespace {

constexpr auto cuda_fault = static_cast<abi::cuda_status>(700);

template <class T>
abi::cuda_status remove(handles<T>& from, T handle, const char* who) {
  if (std::erase(from, handle) == 0)
    blame(std::string{who} + " destroyed that does not exist");
  else
    delete handle;
  return abi::cuda_status::success;
}

} // namespace

// -- NCCL ---------------------------------------------------------------------

// The names are those of the real libraries.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

abi::result ncclGetVersion(int* version) {
  *version = the().version;
  return abi::result::success;
}

const char* ncclGetErrorString(abi::result code) {
  return code == abi::result::remote_error ? "remote error" : "a planned error";
}

const char* ncclGetLastError(abi::comm) {
  return "";
}

abi::result ncclGetUniqueId(abi::unique_id* id) {
  lock guard{the().mutex};
  auto number = ++the().ids;
  std::memset(id, 0x5a, sizeof *id);
  std::memcpy(id->bytes, &number, sizeof number);
  return abi::result::success;
}

abi::result ncclCommInitRankConfig(abi::comm* comm, int size, abi::unique_id id,
                                   int rank, abi::config* config) {
  lock guard{the().mutex};
  uint64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof number);
  *comm = nullptr;
  if (config->magic != 0xcafebeef || config->blocking != 0)
    blame("a communicator that blocks");
  if (the().wrong.refused.contains(rank))
    return abi::result::system_error;
  auto& ranks = the().cliques[number];
  if (ranks.size == 0)
    ranks.size = size;
  if (number == 0 || number > the().ids || ranks.size != size)
    blame("an unknown id, or another size than the others have");
  *comm = new abi::comm_object{&ranks, rank, current_device};
  if (!ranks.ranks.emplace(rank, *comm).second)
    blame("a rank that has come already");
  the().comms.push_back(*comm);
  ++the().made;
  return abi::result::in_progress;
}

abi::result ncclCommGetAsyncError(abi::comm comm, abi::result* state) {
  lock guard{the().mutex};
  if (!known(comm, "ncclCommGetAsyncError"))
    return abi::result::invalid_argument;
  move_on();
  *state = comm->state;
  return abi::result::success;
}

abi::result ncclCommFinalize(abi::comm comm) {
  lock guard{the().mutex};
  if (!known(comm, "ncclCommFinalize"))
    return abi::result::invalid_argument;
  if (comm->at != stage::ready || comm->state == abi::result::in_progress)
    blame("finalised while something is under way");
  if (comm->state != abi::result::success)
    return comm->state;
  comm->at = stage::leaving;
  comm->state = abi::result::in_progress;
  return abi::result::in_progress;
}

abi::result ncclCommDestroy(abi::comm comm) {
  lock guard{the().mutex};
  if (!known(comm, "ncclCommDestroy"))
    return abi::result::invalid_argument;
  if (comm->at != stage::left)
    blame("destroyed without a goodbye: the real one would wait");
  comm->ranks->ranks.erase(comm->rank);
  end(comm);
  return abi::result::success;
}

FAKE_ABORT_VISIBILITY abi::result ncclCommAbort(abi::comm comm) {
  lock guard{the().mutex};
  if (!known(comm, "ncclCommAbort"))
    return abi::result::invalid_argument;
  withdraw(comm);
  if (the().wrong.notices_aborts)
    for (auto& [rank, other] : comm->ranks->ranks)
      if (other->at == stage::ready && other->state == abi::result::success)
        other->state = abi::result::remote_error;
  end(comm);
  return abi::result::success;
}

abi::result ncclGroupStart() {
  ++group_depth;
  return abi::result::success;
}

abi::result ncclGroupEnd() {
  lock guard{the().mutex};
  if (group_depth == 0)
    return blame("a group ended that did not begin"),
           abi::result::invalid_usage;
  if (--group_depth != 0)
    return abi::result::success;
  return fake::take_group();
}

abi::result ncclSend(const void* from, size_t count, abi::data_type type,
                     int peer, abi::comm comm, abi::stream stream) {
  return ask({kind::send, from, nullptr, count, type, peer}, comm, stream);
}

abi::result ncclRecv(void* to, size_t count, abi::data_type type, int peer,
                     abi::comm comm, abi::stream stream) {
  return ask({kind::recv, nullptr, to, count, type, peer}, comm, stream);
}

abi::result ncclReduce(const void* from, void* to, size_t count,
                       abi::data_type type, abi::reduction how, int root,
                       abi::comm comm, abi::stream stream) {
  lock guard{the().mutex};
  auto scale = 1.0;
  if (how != abi::reduction::sum && the().comms.contains(comm)) {
    auto found = comm->sums.find(static_cast<unsigned>(how));
    if (found == comm->sums.end())
      return blame("a sum of a kind that was not made"),
             abi::result::invalid_argument;
    scale = found->second;
  }
  return ask({kind::reduce, from, to, count, type, root, scale}, comm, stream);
}

abi::result ncclRedOpCreatePreMulSum(abi::reduction* how, void* scale,
                                     abi::data_type type, abi::residence,
                                     abi::comm comm) {
  lock guard{the().mutex};
  if (!known(comm, "a scaled sum"))
    return abi::result::invalid_argument;
  if (comm->state != abi::result::success)
    return comm->state;
  auto number = comm->next_sum++;
  comm->sums[number] = type == abi::data_type::float64
                         ? *static_cast<double*>(scale)
                         : *static_cast<float*>(scale);
  *how = abi::reduction{number};
  return abi::result::success;
}

abi::result ncclRedOpDestroy(abi::reduction how, abi::comm comm) {
  lock guard{the().mutex};
  if (!known(comm, "the end of a scaled sum"))
    return abi::result::invalid_argument;
  if (comm->sums.erase(static_cast<unsigned>(how)) == 0)
    blame("the end of a scaled sum that was not made");
  return abi::result::success;
}

abi::result ncclBroadcast(const void* from, void* to, size_t count,
                          abi::data_type type, int root, abi::comm comm,
                          abi::stream stream) {
  return ask({kind::broadcast, from, to, count, type, root}, comm, stream);
}

// -- CUDA runtime -------------------------------------------------------------

const char* cudaGetErrorString(abi::cuda_status) {
  return "a planned CUDA error";
}

abi::cuda_status cudaGetDeviceCount(int* count) {
  *count = the().devices;
  return the().devices < 0 ? cuda_fault : abi::cuda_status::success;
}

abi::cuda_status cudaGetDevice(int* device) {
  *device = current_device;
  return abi::cuda_status::success;
}

abi::cuda_status cudaSetDevice(int device) {
  lock guard{the().mutex};
  if (the().wrong.bad_device)
    return cuda_fault;
  current_device = device;
  return abi::cuda_status::success;
}

abi::cuda_status cudaStreamCreateWithFlags(abi::stream* stream, unsigned) {
  lock guard{the().mutex};
  if (the().wrong.no_streams)
    return cuda_fault;
  *stream = new abi::stream_object{current_device, false, {}};
  the().streams.push_back(*stream);
  return abi::cuda_status::success;
}

abi::cuda_status cudaStreamDestroy(abi::stream stream) {
  lock guard{the().mutex};
  return remove(the().streams, stream, "a stream");
}

abi::cuda_status cudaStreamQuery(abi::stream stream) {
  lock guard{the().mutex};
  if (!the().streams.contains(stream))
    return blame("a query of no stream"), cuda_fault;
  move_on();
  if (the().wrong.queries_fail)
    return cuda_fault;
  return stream->queue.empty() ? abi::cuda_status::success
                               : abi::cuda_status::not_ready;
}

abi::cuda_status cudaStreamWaitEvent(abi::stream stream, abi::event event,
                                     unsigned) {
  lock guard{the().mutex};
  if (!the().streams.contains(stream) || !the().events.contains(event))
    return blame("a wait in no stream, or for no event"), cuda_fault;
  stream->queue.push_back({nullptr, nullptr, event});
  return abi::cuda_status::success;
}

abi::cuda_status cudaEventCreateWithFlags(abi::event* event, unsigned) {
  lock guard{the().mutex};
  *event = new abi::event_object;
  the().events.push_back(*event);
  return abi::cuda_status::success;
}

abi::cuda_status cudaEventDestroy(abi::event event) {
  lock guard{the().mutex};
  return remove(the().events, event, "an event");
}

abi::cuda_status cudaEventRecord(abi::event event, abi::stream stream) {
  lock guard{the().mutex};
  if (!the().streams.contains(stream) || !the().events.contains(event))
    return blame("a record in no stream, or of no event"), cuda_fault;
  for (auto comm : the().comms)
    if (comm->arriving && comm->target == stream)
      blame("a mark before the call before it has come in");
  event->reached = false;
  stream->queue.push_back({nullptr, event});
  return abi::cuda_status::success;
}

abi::cuda_status cudaEventQuery(abi::event event) {
  lock guard{the().mutex};
  if (!the().events.contains(event))
    return blame("a query of no event"), cuda_fault;
  move_on();
  if (the().wrong.queries_fail)
    return cuda_fault;
  return event->reached ? abi::cuda_status::success
                        : abi::cuda_status::not_ready;
}

abi::cuda_status cudaMalloc(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  return abi::cuda_status::success;
}

abi::cuda_status cudaFree(void* memory) {
  std::free(memory);
  return abi::cuda_status::success;
}

abi::cuda_status cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                                 abi::copy_kind, abi::stream) {
  std::memcpy(to, from, bytes);
  return abi::cuda_status::success;
}

} // extern "C"
// NOLINTEND(readability-identifier-naming)

// -- for tests ----------------------------------------------------------------

namespace fake {

void reset(uint64_t seed, double pace) {
  lock guard{the().mutex};
  for (auto x : the().comms)
    delete x;
  for (auto x : the().streams)
    delete x;
  for (auto x : the().events)
    delete x;
  the().comms.clear();
  the().streams.clear();
  the().events.clear();
  the().cliques.clear();
  the().violations.clear();
  the().made = the().ended = 0;
  the().sums = the().broadcasts = 0;
  the().wrong = {};
  the().devices = 2;
  the().version = release;
  the().random.seed(seed);
  the().pace = pace;
}

faults& wrong() {
  return the().wrong;
}

void spoil(const std::function<void(faults&)>& how) {
  lock guard{the().mutex};
  how(the().wrong);
}

int& devices() {
  return the().devices;
}

int& version() {
  return the().version;
}

nccl::entry_points table() {
  nccl::entry_points t;
  t.get_version = ncclGetVersion;
  t.error_text = ncclGetErrorString;
  t.last_error = ncclGetLastError;
  t.get_unique_id = ncclGetUniqueId;
  t.comm_init = ncclCommInitRankConfig;
  t.comm_async_error = ncclCommGetAsyncError;
  t.comm_finalize = ncclCommFinalize;
  t.comm_destroy = ncclCommDestroy;
  t.comm_abort = ncclCommAbort;
  t.group_start = ncclGroupStart;
  t.group_end = ncclGroupEnd;
  t.send = ncclSend;
  t.recv = ncclRecv;
  t.reduce = ncclReduce;
  t.make_scaled_sum = ncclRedOpCreatePreMulSum;
  t.end_scaled_sum = ncclRedOpDestroy;
  t.broadcast = ncclBroadcast;
  t.cuda_error_text = cudaGetErrorString;
  t.device_count = cudaGetDeviceCount;
  t.get_device = cudaGetDevice;
  t.set_device = cudaSetDevice;
  t.stream_create = cudaStreamCreateWithFlags;
  t.stream_destroy = cudaStreamDestroy;
  t.stream_query = cudaStreamQuery;
  t.stream_wait_event = cudaStreamWaitEvent;
  t.event_create = cudaEventCreateWithFlags;
  t.event_destroy = cudaEventDestroy;
  t.event_record = cudaEventRecord;
  t.event_query = cudaEventQuery;
  t.memory_take = cudaMalloc;
  t.memory_give = cudaFree;
  t.memory_copy = cudaMemcpyAsync;
  return t;
}

nccl::library_ptr library() {
  return std::make_shared<const nccl::library>(table(), version(), devices());
}

census alive() {
  lock guard{the().mutex};
  return {the().comms.size(), the().streams.size(), the().events.size()};
}

size_t comms_made() {
  lock guard{the().mutex};
  return the().made;
}

size_t transfers() {
  lock guard{the().mutex};
  return the().transfers;
}

size_t sums() {
  lock guard{the().mutex};
  return the().sums;
}

size_t broadcasts() {
  lock guard{the().mutex};
  return the().broadcasts;
}

size_t comms_ended() {
  lock guard{the().mutex};
  return the().ended;
}

std::vector<std::string> violations() {
  lock guard{the().mutex};
  return the().violations;
}

nccl::abi::stream busy_stream() {
  lock guard{the().mutex};
  abi::stream stream = nullptr;
  cudaStreamCreateWithFlags(&stream, 0);
  stream->held = true;
  return stream;
}

void finish(nccl::abi::stream which) {
  lock guard{the().mutex};
  which->held = false;
}

} // namespace fake
