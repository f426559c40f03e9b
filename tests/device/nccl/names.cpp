// NCCL's names, as its library has them. What the real one answers with an
// error that only a faulty program can cause is a breach here.

#include "tests/device/nccl/rank.hpp"

#include <cstring>
#include <set>
#include <utility>

namespace abi = troupe::models::nccl;
namespace fake = troupe::testing::fake;
using namespace troupe::testing::fake_nccl;

namespace troupe::models::nccl {

struct comm_object {
  testing::fake_nccl::rank its;
};

} // namespace troupe::models::nccl

namespace {

/// The release that it pretends to be: 2.28.9.
constexpr int release = 22809;

std::set<abi::comm>& alive() {
  static auto* out = new std::set<abi::comm>;
  return *out;
}

/// What NCCL says of the last error of this process.
std::string& last_error() {
  static auto* out = new std::string;
  return *out;
}

bool is_usable(abi::comm comm, const std::string& name) {
  if (!alive().contains(comm)) {
    blame(name + ": no such communicator, or it has ended");
    return false;
  }
  if (comm->its.device() != fake::current_device().index())
    blame(name + ": another device is the current one");
  return true;
}

abi::result ask(const part& x, abi::comm comm, abi::stream stream,
                const std::string& name) {
  lock guard{guard_of_all()};
  if (!is_usable(comm, name))
    return abi::result::invalid_argument;
  auto& its = comm->its;
  auto where = fake::stream_of(stream);
  if (where.device_index() != its.device())
    blame(name + ": a stream of another device");
  if (its.state() == abi::result::in_progress)
    blame(name + ": the call before it has not come in yet");
  if (its.state() != abi::result::success)
    return its.state(); // An error may come between any two calls.
  if (is_wrong("call-fails", its.number()))
    return abi::result::internal_error;
  return its.issue(x, where);
}

} // namespace

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

abi::result ncclGetVersion(int* version) {
  *version = release;
  return abi::result::success;
}

const char* ncclGetErrorString(abi::result code) {
  return code == abi::result::remote_error    ? "remote process exited"
         : code == abi::result::invalid_usage ? "invalid usage"
                                              : "a planned error";
}

const char* ncclGetLastError(abi::comm comm) {
  lock guard{guard_of_all()};
  if (comm != nullptr && alive().contains(comm))
    last_error() = comm->its.error();
  return last_error().c_str();
}

abi::result ncclGetUniqueId(abi::unique_id* id) {
  room::make(*id);
  return abi::result::success;
}

abi::result ncclCommInitRankConfig(abi::comm* comm, int size, abi::unique_id id,
                                   int number, abi::comm_config* config) {
  lock guard{guard_of_all()};
  *comm = nullptr;
  if (config->magic != 0xcafebeef || config->blocking != 0)
    blame("ncclCommInitRankConfig: a communicator that blocks");
  if (is_wrong("refused", number))
    return abi::result::system_error;
  *comm = new abi::comm_object{
    {room::open(id), number, size, fake::current_device().index()}};
  alive().insert(*comm);
  return abi::result::in_progress;
}

abi::result ncclCommGetAsyncError(abi::comm comm, abi::result* state) {
  lock guard{guard_of_all()};
  if (!is_usable(comm, "ncclCommGetAsyncError"))
    return abi::result::invalid_argument;
  *state = comm->its.look();
  return abi::result::success;
}

abi::result ncclCommAbort(abi::comm comm) {
  lock guard{guard_of_all()};
  if (!is_usable(comm, "ncclCommAbort"))
    return abi::result::invalid_argument;
  alive().erase(comm);
  delete comm;
  return abi::result::success;
}

abi::result ncclSend(const void* from, size_t count, abi::data_type type,
                     int peer, abi::comm comm, abi::stream stream) {
  return ask({action::send, from, nullptr, count, type, peer}, comm, stream,
             "ncclSend");
}

abi::result ncclRecv(void* to, size_t count, abi::data_type type, int peer,
                     abi::comm comm, abi::stream stream) {
  return ask({action::receive, nullptr, to, count, type, peer}, comm, stream,
             "ncclRecv");
}

abi::result ncclReduceScatter(const void* from, void* to, size_t count,
                              abi::data_type type, abi::reduction how,
                              abi::comm comm, abi::stream stream) {
  if (how != abi::reduction::sum)
    blame("ncclReduceScatter: only sums");
  return ask({action::reduce_scatter, from, to, count, type}, comm, stream,
             "ncclReduceScatter");
}

abi::result ncclAllGather(const void* from, void* to, size_t count,
                          abi::data_type type, abi::comm comm,
                          abi::stream stream) {
  return ask({action::all_gather, from, to, count, type}, comm, stream,
             "ncclAllGather");
}

// -- for tests ----------------------------------------------------------------

void fake_nccl_spoil(const char* faults) {
  spoil(faults);
}

/// Has breaches told instead of ending the process.
void fake_nccl_on_breach(void (*told)(const char* line)) {
  on_breach = told;
}

/// Communicators that have not ended.
size_t fake_nccl_alive() {
  lock guard{guard_of_all()};
  return alive().size();
}

} // extern "C"
// NOLINTEND(readability-identifier-naming)
