#pragma once
// A fake of NCCL and the CUDA runtime: the entry points that we use, over host
// memory, with a hub in this process instead of GPUs. It checks the rules of
// the real libraries and records violations: a call before the previous one was
// accepted, a communicator used after its end, a call on the wrong device.
//
// Nothing happens by itself: each query lets some work make progress, which is
// drawn from the seed. So one thread or many may poll the ranks. Thread-safe.
//
// The same source is also built as a library (see CMakeLists.txt) that can be
// opened at run time.

#include "messages/transport/nccl/library/library.hpp"

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace fake {

namespace nccl = troupe::transport::nccl;

/// The faults to inject, by rank. Set them before or between calls.
struct faults {
  std::set<int> refused;       ///< Initialising fails at once.
  std::set<int> never_meets;   ///< Initialising never ends.
  std::set<int> meets_badly;   ///< Initialising fails after a while.
  std::set<int> call_fails;    ///< Calls are refused.
  std::set<int> never_issued;  ///< Calls are accepted and never issued.
  std::set<int> never_done;    ///< Operations never end.
  std::set<int> no_broadcast;  ///< Broadcasts never end.
  std::set<int> comm_fails;    ///< An asynchronous error.
  std::set<int> never_leaves;  ///< Finalising never ends.
  std::set<int> stuck;         ///< An abort does not end operations.
  bool queries_fail = false;   ///< Events and streams answer with an error.
  bool no_streams = false;     ///< No stream can be created.
  bool bad_device = false;     ///< No device can be selected.
  bool notices_aborts = false; ///< The others are told of an abort.
};

/// Resets everything. `pace` is the chance that a piece of work makes progress.
void reset(uint64_t seed, double pace = 0.5);

faults& wrong();

/// Changes the faults while other threads call.
void spoil(const std::function<void(faults&)>& how);

int& devices();
int& version();

nccl::entry_points table();

/// The library over this table.
nccl::library_ptr library();

/// The number of existing objects.
struct census {
  size_t comms = 0;
  size_t streams = 0;
  size_t events = 0;

  bool operator==(const census&) const = default;
};

census alive();

/// Communicators ever created; and ended, each counted once.
size_t comms_made();
size_t comms_ended();

/// Sends that were received, ever.
size_t transfers();

/// Sums that reached their root, and broadcasts that reached all ranks, ever.
size_t sums();
size_t broadcasts();

/// The violated rules, one line each.
std::vector<std::string> violations();

/// A stream of the caller, like one that computes; it ends when told.
nccl::abi::stream busy_stream();
void finish(nccl::abi::stream which);

} // namespace fake
