#include "tests/nccl/fake_nccl.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

#ifndef FAKE_VERSION
#define FAKE_VERSION 22809
#endif
#ifdef FAKE_LACKS_ABORT
#define FAKE_ABORT_VISIBILITY __attribute__((visibility("hidden")))
#else
#define FAKE_ABORT_VISIBILITY
#endif

namespace nccl = troupe::transport::nccl;
namespace abi = nccl::abi;

// -- what there is
// -------------------------------------------------------------

namespace {

enum class kind { send, recv, reduce, broadcast };

/// A transfer that was asked for.
struct posted {
  kind what;
  const void* from;
  void* to;
  size_t count;
  abi::data_type type;
  int peer;
  bool done = false;

  size_t bytes() const {
    return count * (type == abi::data_type::float64   ? 8
                    : type == abi::data_type::float32 ? 4
                                                      : 2);
  }
};

using posted_ptr = std::shared_ptr<posted>;

/// Transfers that begin at once.
struct group {
  abi::comm owner;
  int rank;
  std::vector<posted_ptr> parts;
  bool begun = false;
  bool cancelled = false;
};

using group_ptr = std::shared_ptr<group>;

/// Work in a stream: a group, or a mark to make, or one to wait for.
struct work {
  group_ptr transfers = nullptr;
  abi::event mark = nullptr;
  abi::event awaited = nullptr;
};

/// The ranks of one id.
struct clique {
  int size = 0;
  std::map<int, abi::comm> ranks;
  std::map<std::pair<int, int>, std::deque<posted_ptr>> sends, recvs;
  std::map<int, std::deque<posted_ptr>> collectives;
};

enum class stage { meeting, ready, leaving, left };

} // namespace

namespace troupe::transport::nccl::abi {

struct comm_object {
  clique* ranks;
  int rank;
  int device;
  stage at = stage::meeting;
  result state = result::in_progress;
  group_ptr arriving = nullptr; ///< Taken, and not yet in its stream.
  abi::stream target = nullptr;
};

struct stream_object {
  int device;
  bool held = false; ///< Until `finish`.
  std::deque<work> queue;
};

struct event_object {
  bool reached = true;
};

} // namespace troupe::transport::nccl::abi

namespace {

/// Handles that exist, in the order in which they were made: addresses would
/// make each run another one.
template <class T>
struct handles : std::vector<T> {
  bool contains(T x) const {
    return std::find(this->begin(), this->end(), x) != this->end();
  }
};

struct hub {
  std::recursive_mutex mutex;
  std::mt19937_64 random{1};
  double pace = 0.5;
  fake::faults wrong;
  int devices = 2;
  int version = FAKE_VERSION;
  uint64_t ids = 0;
  std::map<uint64_t, clique> cliques;
  handles<abi::comm> comms;
  handles<abi::stream> streams;
  handles<abi::event> events;
  size_t made = 0;
  size_t ended = 0;
  std::vector<std::string> violations;
};

hub& the() {
  static hub instance;
  return instance;
}

thread_local int current_device = 0;
thread_local int group_depth = 0;
thread_local std::vector<std::pair<abi::stream, group_ptr>> group_calls;

bool chance() {
  return std::uniform_real_distribution<>{0, 1}(the().random) < the().pace;
}

void blame(const std::string& text) {
  the().violations.push_back(text);
}

// -- moving things on
// ----------------------------------------------------------

template <class T>
void sum(const std::vector<posted_ptr>& all, const posted& root) {
  // Nobody promises an order.
  std::vector<T> total(root.count);
  for (const auto& x : all) {
    const auto* numbers = static_cast<const T*>(x->from);
    for (size_t i = 0; i < root.count; ++i)
      total[i] += numbers[i];
  }
  std::memcpy(root.to, total.data(), root.bytes());
}

void carry_out(std::vector<posted_ptr> all, const posted& root) {
  std::shuffle(all.begin(), all.end(), the().random);
  if (root.what == kind::broadcast) {
    for (const auto& x : all)
      if (x->to != root.from)
        std::memcpy(x->to, root.from, root.bytes());
  } else if (root.type == abi::data_type::float64) {
    sum<double>(all, root);
  } else {
    sum<float>(all, root);
  }
  for (const auto& x : all)
    x->done = true;
}

bool fit(const posted& a, const posted& b) {
  auto fits = a.count == b.count && a.type == b.type;
  if (!fits)
    blame("the two sides name different sizes");
  return fits;
}

void match_pairs(clique& ranks) {
  for (auto& [way, sends] : ranks.sends) {
    auto& recvs = ranks.recvs[way];
    if (sends.empty() || recvs.empty() || !chance())
      continue;
    auto from = sends.front();
    auto to = recvs.front();
    sends.pop_front();
    recvs.pop_front();
    if (fit(*from, *to))
      std::memcpy(to->to, from->from, from->bytes());
    from->done = to->done = true;
  }
}

void match_collectives(clique& ranks) {
  std::vector<posted_ptr> all;
  posted_ptr root;
  for (auto& [rank, queue] : ranks.collectives) {
    if (queue.empty())
      continue;
    all.push_back(queue.front());
    if (queue.front()->peer == rank)
      root = queue.front();
  }
  if (static_cast<int>(all.size()) < ranks.size || !chance())
    return;
  if (!root)
    return blame("a collective without its root");
  for (const auto& x : all)
    if (x->what != root->what || !fit(*x, *root))
      return blame("ranks are in different collectives");
  for (auto& [rank, queue] : ranks.collectives)
    queue.pop_front();
  carry_out(std::move(all), *root);
}

void enter(clique& ranks, const group& what) {
  for (const auto& x : what.parts) {
    switch (x->what) {
    case kind::send:
      ranks.sends[{what.rank, x->peer}].push_back(x);
      break;
    case kind::recv:
      ranks.recvs[{x->peer, what.rank}].push_back(x);
      break;
    default:
      ranks.collectives[what.rank].push_back(x);
    }
  }
}

/// True when the head of the stream has ended.
bool advance(work& head) {
  if (head.mark != nullptr) {
    if (!chance())
      return false;
    if (the().events.contains(head.mark))
      head.mark->reached = true;
    return true;
  }
  if (head.awaited != nullptr)
    return !the().events.contains(head.awaited) || head.awaited->reached;
  auto& what = *head.transfers;
  if (what.cancelled) {
    if (the().wrong.stuck.contains(what.rank) || !chance())
      return false;
    // Until now the device may write there: who gave it back too early is
    // found.
    for (const auto& x : what.parts)
      if (!x->done && x->to != nullptr)
        std::memset(x->to, 0xee, x->bytes());
    return true;
  }
  if (!what.begun) {
    what.begun = true;
    enter(*what.owner->ranks, what);
  }
  return !the().wrong.never_done.contains(what.rank) &&
         std::all_of(what.parts.begin(), what.parts.end(),
                     [](const auto& x) { return x->done; });
}

bool all_met(const clique& ranks) {
  if (static_cast<int>(ranks.ranks.size()) < ranks.size)
    return false;
  return std::none_of(ranks.ranks.begin(), ranks.ranks.end(), [](auto& x) {
    return the().wrong.never_meets.contains(x.first);
  });
}

void advance(abi::comm comm) {
  const auto& wrong = the().wrong;
  if (comm->state != abi::result::in_progress) {
    if (wrong.comm_fails.contains(comm->rank) &&
        comm->state == abi::result::success)
      comm->state = abi::result::internal_error;
    return;
  }
  if (!chance())
    return;
  if (comm->at == stage::meeting) {
    if (wrong.meets_badly.contains(comm->rank)) {
      comm->state = abi::result::system_error;
    } else if (all_met(*comm->ranks)) {
      comm->at = stage::ready;
      comm->state = abi::result::success;
    }
  } else if (comm->arriving) {
    if (wrong.never_issued.contains(comm->rank))
      return;
    comm->target->queue.push_back({std::exchange(comm->arriving, nullptr)});
    comm->state = abi::result::success;
  } else if (comm->at == stage::leaving) {
    if (wrong.never_leaves.contains(comm->rank))
      return;
    comm->at = stage::left;
    comm->state = abi::result::success;
  }
}

void move_on() {
  for (auto comm : the().comms)
    advance(comm);
  for (auto& [id, ranks] : the().cliques) {
    match_pairs(ranks);
    match_collectives(ranks);
  }
  for (auto stream : the().streams)
    while (!stream->held && !stream->queue.empty() &&
           advance(stream->queue.front()))
      stream->queue.pop_front();
}

// -- the rules
// -----------------------------------------------------------------

using lock = std::lock_guard<std::recursive_mutex>;

bool known(abi::comm comm, const char* who) {
  if (!the().comms.contains(comm)) {
    blame(std::string{who} + ": no such communicator, or its end has been");
    return false;
  }
  if (comm->device != current_device)
    blame(std::string{who} + ": on the wrong device");
  return true;
}

abi::result take(std::vector<std::pair<abi::stream, group_ptr>> calls) {
  for (auto& [stream, what] : calls) {
    auto comm = what->owner;
    if (comm->arriving)
      return abi::result::invalid_usage;
    comm->arriving = std::move(what);
    comm->target = stream;
    comm->state = abi::result::in_progress;
  }
  return calls.empty() ? abi::result::success : abi::result::in_progress;
}

abi::result ask(posted what, abi::comm comm, abi::stream stream) {
  lock guard{the().mutex};
  if (!known(comm, "a transfer"))
    return abi::result::invalid_argument;
  if (comm->state != abi::result::success)
    blame("a transfer before the call before it has come in");
  if (!the().streams.contains(stream))
    blame("a transfer in no stream");
  if (the().wrong.call_fails.contains(comm->rank))
    return abi::result::internal_error;
  auto part = std::make_shared<posted>(what);
  for (auto& [where, other] : group_calls)
    if (other->owner == comm && where == stream) {
      other->parts.push_back(std::move(part));
      return abi::result::success;
    }
  auto calls = std::make_shared<group>(group{comm, comm->rank, {part}});
  if (group_depth != 0) {
    group_calls.emplace_back(stream, std::move(calls));
    return abi::result::success;
  }
  return take({{stream, std::move(calls)}});
}

/// Takes back what the communicator asked for.
void withdraw(abi::comm comm) {
  for (auto stream : the().streams)
    for (auto& item : stream->queue)
      if (item.transfers && item.transfers->owner == comm)
        item.transfers->cancelled = true;
  auto rank = comm->rank;
  auto& ranks = *comm->ranks;
  for (auto& [way, queue] : ranks.sends)
    if (way.first == rank)
      queue.clear();
  for (auto& [way, queue] : ranks.recvs)
    if (way.second == rank)
      queue.clear();
  ranks.collectives[rank].clear();
  ranks.ranks.erase(rank);
}

void end(abi::comm comm) {
  std::erase(the().comms, comm);
  ++the().ended;
  delete comm;
}

template <class T>
abi::cuda_status remove(handles<T>& from, T what, const char* who) {
  if (std::erase(from, what) == 0)
    blame(std::string{who} + " destroyed that does not exist");
  else
    delete what;
  return abi::cuda_status::success;
}

constexpr auto cuda_fault = static_cast<abi::cuda_status>(700);

} // namespace

// -- NCCL
// ----------------------------------------------------------------------

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
  if (comm->at != stage::ready || comm->state != abi::result::success)
    blame("finalised while something is under way");
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
  return take(std::exchange(group_calls, {}));
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
                       abi::data_type type, abi::reduction, int root,
                       abi::comm comm, abi::stream stream) {
  return ask({kind::reduce, from, to, count, type, root}, comm, stream);
}

abi::result ncclBroadcast(const void* from, void* to, size_t count,
                          abi::data_type type, int root, abi::comm comm,
                          abi::stream stream) {
  return ask({kind::broadcast, from, to, count, type, root}, comm, stream);
}

// -- CUDA runtime
// --------------------------------------------------------------

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

// -- for tests
// -----------------------------------------------------------------

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
  the().wrong = {};
  the().devices = 2;
  the().version = FAKE_VERSION;
  the().random.seed(seed);
  the().pace = pace;
}

faults& wrong() {
  return the().wrong;
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
