// Registers the fake device as LibTorch's CUDA: guard, events, streams,
// allocators and hooks. Static objects do so when the library is opened.

#include "tests/device/fake/device.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace troupe::testing::fake {

namespace {

struct guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }

  c10::Device exchangeDevice(c10::Device next) const override {
    auto before = current_device();
    set_current_device(next);
    return before;
  }

  c10::Device getDevice() const override { return current_device(); }

  void setDevice(c10::Device next) const override { set_current_device(next); }

  void uncheckedSetDevice(c10::Device next) const noexcept override {
    set_current_device(next);
  }

  c10::Stream getStream(c10::Device where) const override {
    return current_stream(where);
  }

  c10::Stream getDefaultStream(c10::Device where) const override {
    return c10::Stream{c10::Stream::DEFAULT, where};
  }

  c10::Stream getStreamFromGlobalPool(c10::Device where,
                                      bool high_priority) const override {
    return stream_of_pool(where, high_priority);
  }

  c10::Stream getNewStream(c10::Device where, int priority) const override {
    return stream_of_pool(where, priority < 0);
  }

  void* getStreamNativeHandle(c10::Stream where) const override {
    return handle_of(where);
  }

  c10::Stream exchangeStream(c10::Stream next) const override {
    return exchange_stream(next);
  }

  void destroyEvent(void* x, c10::DeviceIndex) const noexcept override {
    delete static_cast<event*>(x);
  }

  void record(void** x, const c10::Stream& where, c10::DeviceIndex,
              c10::EventFlag) const override {
    if (*x == nullptr)
      *x = new event;
    fake::record(*static_cast<event*>(*x), where);
  }

  void block(void* x, const c10::Stream& where) const override {
    if (x != nullptr)
      fake::block(*static_cast<event*>(x), where);
  }

  bool queryEvent(void* x) const override {
    return x == nullptr || query(*static_cast<event*>(x));
  }

  void synchronizeEvent(void* x) const override {
    if (x != nullptr)
      wait_for(*static_cast<event*>(x));
  }

  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(device_count());
  }

  bool queryStream(const c10::Stream& where) const override {
    return query(where);
  }

  void synchronizeStream(const c10::Stream& where) const override {
    wait_for(where);
  }

  void synchronizeDevice(c10::DeviceIndex which) const override {
    wait_for_all(which);
  }

  void recordDataPtrOnStream(const c10::DataPtr& memory,
                             const c10::Stream& where) const override {
    use_on(memory, where);
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, guard)

struct memory final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override { return take_memory(bytes); }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(bytes_behind(to), bytes_behind(from), bytes);
  }

  bool initialized() override { return true; }

  void emptyCache(c10::MempoolId_t) override {}

  void recordStream(const c10::DataPtr& x, c10::Stream where) override {
    use_on(x, where);
  }

  c10::CachingDeviceAllocator::DeviceStats
  getDeviceStats(c10::DeviceIndex) override {
    return {};
  }

  void resetAccumulatedStats(c10::DeviceIndex) override {}

  void resetPeakStats(c10::DeviceIndex) override {}

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    auto found = memory_usage();
    return {found.total - found.used, found.total};
  }
};

struct pinned_memory final : at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override { return take_pinned(bytes); }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  bool record_event(void*, void*, c10::Stream) override { return true; }

  void empty_cache() override {}

  at::HostStats get_stats() override { return {}; }

  void reset_accumulated_stats() override {}

  void reset_peak_stats() override {}
};

memory of_device;
pinned_memory of_host;

struct hooks final : at::CUDAHooksInterface {
  explicit hooks(at::CUDAHooksArgs) {
    // nop
  }

  void init() const override {}

  bool isBuilt() const override { return true; }

  bool isAvailable() const override { return device_count() > 0; }

  bool hasCUDA() const override { return device_count() > 0; }

  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }

  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(device_count());
  }

  int getNumGPUs() const override { return device_count(); }

  c10::DeviceIndex current_device() const override {
    return fake::current_device().index();
  }

  c10::DeviceIndex getCurrentDevice() const override {
    return current_device();
  }

  void setCurrentDevice(c10::DeviceIndex which) const override {
    set_current_device({c10::kCUDA, which});
  }

  c10::DeviceIndex exchangeDevice(c10::DeviceIndex which) const override {
    auto before = current_device();
    setCurrentDevice(which);
    return before;
  }

  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex which) const override {
    return exchangeDevice(which);
  }

  bool isPinnedPtr(const void* x) const override { return is_pinned(x); }

  c10::Allocator* getPinnedMemoryAllocator() const override { return &of_host; }

  c10::Allocator* getCUDADeviceAllocator() const override { return &of_device; }
};

} // namespace

} // namespace troupe::testing::fake

namespace at {
using fake_hooks = troupe::testing::fake::hooks;
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, fake_hooks)
} // namespace at

namespace troupe::testing::fake {

namespace {

[[maybe_unused]] const auto registered = [] {
  c10::SetAllocator(c10::kCUDA, &of_device);
  at::setHostAllocator(c10::kCUDA, &of_host);
  return true;
}();

} // namespace

} // namespace troupe::testing::fake
