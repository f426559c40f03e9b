#pragma once
// A double of NCCL and the CUDA runtime: the entry points that we use, over
// host memory, with a hub in this process in place of GPUs. It keeps the rules
// that the real ones have and notes who breaks them: a call before the one
// before has come in, a communicator used after its end, a call on the wrong
// device.
//
// Nothing happens by itself: each query moves some things on, which ones the
// seed says. So ranks may be polled in turn by one thread or by many.
//
// The same source is a library of its own too (see CMakeLists.txt), to be
// opened at run time.

#include "messages/transport/nccl/library.hpp"

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace fake {

namespace nccl = troupe::transport::nccl;

/// What goes wrong, by rank. Set them before or between calls.
struct faults {
  std::set<int> refused;       ///< Initialising fails at once.
  std::set<int> never_meets;   ///< Initialising never ends.
  std::set<int> meets_badly;   ///< Initialising fails after a while.
  std::set<int> call_fails;    ///< Calls are refused.
  std::set<int> never_issued;  ///< Calls are taken and never come in.
  std::set<int> never_done;    ///< What runs never ends.
  std::set<int> no_broadcast;  ///< The same, for broadcasts alone.
  std::set<int> comm_fails;    ///< An asynchronous error.
  std::set<int> never_leaves;  ///< Finalising never ends.
  std::set<int> stuck;         ///< An abort does not end what runs.
  bool queries_fail = false;   ///< Events and streams answer with an error.
  bool no_streams = false;     ///< None can be made.
  bool bad_device = false;     ///< None can be made current.
  bool notices_aborts = false; ///< The others are told of an abort.
};

/// Forgets all, and begins anew. `pace` is the chance that a thing moves on.
void reset(uint64_t seed, double pace = 0.5);

faults& wrong();

/// The same while others call.
void spoil(const std::function<void(faults&)>& how);

int& devices();
int& version();

nccl::entry_points table();

/// The library over this table.
nccl::library_ptr library();

/// What exists now.
struct census {
  size_t comms = 0;
  size_t streams = 0;
  size_t events = 0;

  bool operator==(const census&) const = default;
};

census alive();

/// Communicators ever made, and ended; an end counts once.
size_t comms_made();
size_t comms_ended();

/// Sends that were received, ever.
size_t transfers();

/// Sums that reached their root, and broadcasts that reached all, ever.
size_t sums();
size_t broadcasts();

/// Rules that were broken, a line each.
std::vector<std::string> violations();

/// A stream of the caller, as computation has one, that ends when told.
nccl::abi::stream busy_stream();
void finish(nccl::abi::stream which);

} // namespace fake
