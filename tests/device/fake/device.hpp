#pragma once
// The fake device: memory of this process behind addresses that fault when the
// host uses them, streams whose work counts as late until somebody has waited
// for it, and pinned memory that the host may not touch meanwhile. It takes
// CUDA's place in a process without LibTorch's CUDA part.
//
// Thread-safe: one lock for all.

#include "tests/device/fake/order.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace troupe::testing::fake {

/// From FAKE_CUDA_DEVICES, 2 without it; none if CUDA_VISIBLE_DEVICES is empty
/// or FAKE_CUDA_DRIVER names a version (12040 is 12.4), which counts as too
/// old; 0: there is no driver.
int device_count();

/// The stream that this thread enqueues work to.
c10::Stream current_stream(c10::Device where);

/// To be called by all that is asked of the device: after so many calls as
/// FAKE_CUDA_FAILS_AFTER says each fails.
/// @throws c10::AcceleratorError as LibTorch does.
void require_working();

/// Whether it has thrown: then the device uses no memory any more.
bool has_failed();

/// Returns the one before.
c10::Stream exchange_stream(c10::Stream next);

c10::Device current_device();

void set_current_device(c10::Device where);

/// One of 31 of this priority, in turn.
c10::Stream stream_of_pool(c10::Device where, bool high_priority);

/// A stream as other libraries know it.
void* handle_of(c10::Stream where);
c10::Stream stream_of(void* handle);

// -- order --------------------------------------------------------------------

/// An operation that has been enqueued.
class operation {
public:
  /// @throws c10::Error if it is behind work that is not over.
  operation(c10::Stream where, std::string name);

  /// Notes what it does with memory of the device, or with pinned memory; other
  /// memory is not watched. @throws c10::Error if nothing orders it.
  void reads(const void* at, size_t bytes);
  void writes(const void* at, size_t bytes);

private:
  void touches(const void* at, size_t bytes, bool writes);

  moment now_;
};

/// Work of another library, which is over when others have done their part. No
/// operation may be behind it before that: it would wait on the device for
/// somebody who may never come.
class late_work {
public:
  virtual ~late_work() = default;

  /// Lets it make some progress. Any thread may call it.
  virtual bool is_over() = 0;
};

/// Bytes that late work reads or writes.
struct use {
  const void* at = nullptr;
  size_t bytes = 0;
  bool writes = false;
};

/// Enqueues such work, which may be behind other such work.
/// @throws c10::Error if nothing orders what it uses.
void enqueue(c10::Stream where, const std::string& name,
             std::span<const use> uses, std::shared_ptr<late_work> work);

/// An event of LibTorch.
struct event {
  clock seen;
  bool recorded = false;
  int answers_no = 0; ///< How often it says that it is not over, before it is.
};

// Each of the next seven makes one thing wait for another. The one whose
// number, from 1, is in FAKE_CUDA_FORGETS does nothing: so that a test can show
// that it is needed.
void record(event& x, c10::Stream where);
void block(const event& x, c10::Stream where);
bool query(event& x);
void wait_for(const event& x);
void wait_for(c10::Stream where);
bool query(c10::Stream where);
void wait_for_all(c10::DeviceIndex which);

// -- memory -------------------------------------------------------------------

/// Memory of the device; the block goes back to those of its stream.
/// @throws c10::OutOfMemoryError above FAKE_CUDA_MEMORY bytes.
c10::DataPtr take_memory(size_t bytes);

/// Somebody on another stream uses this memory, too.
void use_on(const c10::DataPtr& memory, c10::Stream where);

c10::DataPtr take_pinned(size_t bytes);

bool is_pinned(const void* at);

/// Where the bytes behind an address of the device, or of pinned memory, may be
/// used by an operation; others stay as they are.
std::byte* bytes_behind(const void* at);

/// As CUDA's own copies and reads wait; never left out.
void finish(c10::Stream where);

/// How many of these calls there were.
int dependencies();

// -- memory that two processes use
// ---------------------------------------------

// Each process says in the memory itself which of its uses its host has not
// waited for; a use beside one of the other's is an error, since nothing can
// order them but the host.

/// A name for a device that other processes know, too.
std::string address_of(int device);

/// Memory of the device for another process; null if there is no more.
void* take_shared(size_t bytes);

/// Where that memory can be opened.
struct shared_name {
  int process = 0;
  int file = -1;
  size_t bytes = 0;
};

/// Of memory from take_shared, from its first byte on; otherwise the file is
/// negative.
shared_name name_of_shared(const void* at);

/// Null if it is this process's own or is gone.
void* open_shared(const shared_name& where);

/// Whether it was open. Ends the process if it is in use.
bool close_shared(void* at);

/// Makes mapped memory of the host pinned memory; whether it could.
bool pin(void* at, size_t bytes, bool writable);

/// Whether it was. Ends the process if it is in use.
bool unpin(void* at);

struct usage {
  size_t total = 0;
  size_t used = 0;
};

usage memory_usage();

} // namespace troupe::testing::fake
