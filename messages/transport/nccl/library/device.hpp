#pragma once
// CUDA streams and events with an owner, and the current device of a thread.
// Errors are kept in `status`, not thrown. Used by communicator and
// nccl_transfer; one owner, one thread at a time.

#include "messages/transport/nccl/library/library.hpp"

#include <optional>
#include <utility>

namespace troupe::transport::nccl {

/// Makes a device the current one of this thread, and restores the previous
/// one: the caller's tensor library has a current device of its own.
class device_guard {
public:
  device_guard(const library& lib, int device) : lib_(lib) {
    auto got = lib_.call().get_device(&before_);
    changed_ = got != abi::cuda_status::success || before_ != device;
    if (changed_)
      status_ = lib_.call().set_device(device);
    changed_ = changed_ && got == abi::cuda_status::success;
  }

  ~device_guard() {
    if (changed_)
      lib_.call().set_device(before_);
  }

  device_guard(const device_guard&) = delete;
  device_guard& operator=(const device_guard&) = delete;

  abi::cuda_status status() const { return status_; }

private:
  const library& lib_;
  int before_ = 0;
  bool changed_ = false;
  abi::cuda_status status_ = abi::cuda_status::success;
};

/// A stream that does not wait for the default one. Destroying it does not
/// block: CUDA frees it when its work is done.
class owned_stream {
public:
  explicit owned_stream(library_ptr lib) : lib_(std::move(lib)) {
    status_ = lib_->call().stream_create(&handle_, abi::stream_non_blocking);
  }

  ~owned_stream() {
    if (status_ == abi::cuda_status::success)
      lib_->call().stream_destroy(handle_);
  }

  owned_stream(const owned_stream&) = delete;
  owned_stream& operator=(const owned_stream&) = delete;

  abi::cuda_status status() const { return status_; }

  abi::stream get() const { return handle_; }

private:
  library_ptr lib_;
  abi::stream handle_ = nullptr;
  abi::cuda_status status_;
};

/// A CUDA event: a mark in a stream.
class owned_event {
public:
  /// Creates the event and records it in the stream, after all that is there.
  owned_event(library_ptr lib, abi::stream where) : lib_(std::move(lib)) {
    status_ = lib_->call().event_create(&handle_, abi::event_without_timing);
    exists_ = status_ == abi::cuda_status::success;
    if (exists_)
      status_ = lib_->call().event_record(handle_, where);
  }

  ~owned_event() {
    if (exists_)
      lib_->call().event_destroy(handle_);
  }

  owned_event(const owned_event&) = delete;
  owned_event& operator=(const owned_event&) = delete;

  abi::cuda_status status() const { return status_; }

  abi::event get() const { return handle_; }

private:
  library_ptr lib_;
  abi::event handle_ = nullptr;
  bool exists_ = false;
  abi::cuda_status status_;
};

} // namespace troupe::transport::nccl
