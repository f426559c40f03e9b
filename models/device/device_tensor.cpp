#include "models/device/device_tensor.hpp"

#include "models/device/accelerator.hpp"
#include "models/guarded.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

namespace troupe::models {

namespace {

c10::Stream current_stream_of(const at::Tensor& x) {
  return c10::impl::VirtualGuardImpl{x.device().type()}.getStream(x.device());
}

/// The stream of this device on which the host's copies are made, beside those
/// that compute.
c10::Stream stream_of_copies(c10::Device where) {
  static std::mutex guard;
  static std::vector<c10::Stream> all;
  std::lock_guard lock{guard};
  auto found = std::ranges::find(all, where, &c10::Stream::device);
  if (found != all.end())
    return *found;
  c10::impl::VirtualGuardImpl device{where.type()};
  return all.emplace_back(device.getStreamFromGlobalPool(where));
}

/// A device that has failed reads no more.
void wait_for_end(const c10::Stream& reader) noexcept try {
  reader.synchronize();
} catch (...) {
  // nop
}

} // namespace

device_tensor::device_tensor(at::Tensor flat,
                             std::shared_ptr<payload_pool> copies)
  : flat_(std::move(flat)), written_(flat_.device().type()),
    copies_(std::move(copies)) {
  written_.record(current_stream_of(flat_));
}

device_tensor::~device_tensor() {
  keep_for(readers_, flat_);
}

const std::byte* device_tensor::address() const {
  return static_cast<const std::byte*>(flat_.const_data_ptr());
}

std::span<const std::byte> device_tensor::host_bytes() const {
  auto size = static_cast<size_t>(flat_.nbytes());
  std::lock_guard guard{mutex_};
  if (!copy_)
    guarded("copying from a GPU", [&] {
      auto memory =
        copies_ ? copies_->take_block() : pinned_memory()->take_block(size);
      c10::StreamGuard stream{stream_of_copies(flat_.device())};
      written_.block(stream.current_stream());
      at::NoGradGuard no_grad;
      at::from_blob(memory.get(), flat_.sizes(),
                    flat_.options().device(at::kCPU))
        .copy_(flat_, /*non_blocking=*/true);
      stream.current_stream().synchronize();
      copy_ = std::move(memory);
    });
  return {copy_.get(), size};
}

at::Tensor device_tensor::read() const {
  auto reader = current_stream_of(flat_);
  written_.block(reader);
  std::lock_guard guard{mutex_};
  if (std::ranges::find(readers_, reader) == readers_.end())
    readers_.push_back(reader);
  return flat_;
}

std::vector<c10::Stream> device_tensor::take_readers() const {
  std::lock_guard guard{mutex_};
  return std::exchange(readers_, {});
}

void wait_for(const std::vector<c10::Stream>& readers, const at::Tensor& flat) {
  auto writer = current_stream_of(flat);
  for (const auto& reader : readers)
    if (reader != writer) {
      c10::Event done{reader.device_type()};
      done.record(reader);
      done.block(writer);
    }
}

// The memory goes back to LibTorch, which waits for these streams before it is
// used again. Memory of another source has nobody who waits but this.
void keep_for(const std::vector<c10::Stream>& readers, at::Tensor flat) {
  auto is_of_torch = flat.storage().allocator() != nullptr;
  for (const auto& reader : readers)
    if (is_of_torch)
      flat.record_stream(reader);
    else
      wait_for_end(reader);
}

std::shared_ptr<payload_pool> pool_of_copies(uint64_t bytes,
                                             const payload_memory_ptr& memory) {
  return std::make_shared<payload_pool>(
    bytes, memory == heap_memory() ? pinned_memory() : memory);
}

} // namespace troupe::models
