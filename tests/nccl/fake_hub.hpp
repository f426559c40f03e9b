#pragma once
// The internals of the fake NCCL: ranks, streams and transfers between them.
// Guarded by one lock.

#include "tests/nccl/fake_nccl.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

// -- objects ------------------------------------------------------------------

namespace fake {

namespace abi = nccl::abi;

enum class kind { send, recv, reduce, broadcast };

/// A transfer that was submitted.
struct posted {
  kind what;
  const void* from;
  void* to;
  size_t count;
  abi::data_type type;
  int peer;
  double scale = 1;
  bool done = false;

  size_t bytes() const {
    return count * (type == abi::data_type::float64   ? 8
                    : type == abi::data_type::float32 ? 4
                                                      : 2);
  }
};

using posted_ptr = std::shared_ptr<posted>;

/// Transfers that start together.
struct group {
  abi::comm owner;
  int rank;
  std::vector<posted_ptr> parts;
  bool begun = false;
  bool cancelled = false;
};

using group_ptr = std::shared_ptr<group>;

/// Work in a stream: a group, an event to record, or an event to wait for.
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

} // namespace fake

namespace troupe::transport::nccl::abi {

struct comm_object {
  fake::clique* ranks;
  int rank;
  int device;
  fake::stage at = fake::stage::meeting;
  result state = result::in_progress;
  fake::group_ptr arriving = nullptr;   ///< Accepted, not yet in its stream.
  std::map<unsigned, double> sums = {}; ///< Scaled sums that were created.
  unsigned next_sum = 5;
  abi::stream target = nullptr;
};

struct stream_object {
  int device;
  bool held = false; ///< Until `finish`.
  std::deque<fake::work> queue;
};

struct event_object {
  bool reached = true;
};

} // namespace troupe::transport::nccl::abi

namespace fake {

/// The existing handles in order of creation. Ordered by address, each run
/// would differ.
template <class T>
struct handles : std::vector<T> {
  bool contains(T x) const {
    return std::find(this->begin(), this->end(), x) != this->end();
  }
};

/// The release that it pretends to be, as NCCL writes it.
#ifdef FAKE_VERSION
inline constexpr int release = FAKE_VERSION;
#else
inline constexpr int release = 22809;
#endif

struct hub {
  std::recursive_mutex mutex;
  std::mt19937_64 random{1};
  double pace = 0.5;
  faults wrong;
  int devices = 2;
  int version = release;
  uint64_t ids = 0;
  std::map<uint64_t, clique> cliques;
  handles<abi::comm> comms;
  handles<abi::stream> streams;
  handles<abi::event> events;
  size_t made = 0;
  size_t ended = 0;
  size_t transfers = 0; ///< Sends that have been received.
  size_t sums = 0;
  size_t broadcasts = 0;
  std::vector<std::string> violations;
};

/// The hub of this program, or of this library.
hub& the();

using lock = std::lock_guard<std::recursive_mutex>;

/// The state of each thread, as CUDA and NCCL keep it.
extern thread_local int current_device;
extern thread_local int group_depth;

/// Records a violated rule.
void blame(const std::string& text);

/// Lets each piece of work make some progress, or none, at random.
void move_on();

/// Whether it exists and the thread has its device selected.
bool known(abi::comm comm, const char* who);

/// A call for a transfer, alone or in a group.
abi::result ask(posted operation, abi::comm comm, abi::stream stream);

/// The end of a group of calls.
abi::result take_group();

/// Removes what the communicator has submitted.
void withdraw(abi::comm comm);

/// Destroys the communicator.
void end(abi::comm comm);

} // namespace fake
