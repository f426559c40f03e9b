#include "tests/device/nccl/ranks.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>

namespace troupe::testing::fake_nccl {

namespace {

std::string all_breaches;

void add_breach(const char* line) {
  all_breaches += std::string{line} + "\n";
}

/// A function of the library.
template <class F>
F* name(const char* which) {
  static auto* library = [] {
    setenv("FAKE_CUDA_DEVICES", "4", 1);
    auto* device = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_GLOBAL);
    auto* out = dlopen(FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
    if (device == nullptr || out == nullptr)
      throw std::runtime_error(dlerror());
    return out;
  }();
  auto* found = dlsym(library, which);
  if (found == nullptr)
    throw std::runtime_error(dlerror());
  return reinterpret_cast<F*>(found);
}

abi::data_type type_of(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 ? abi::data_type::bfloat16
         : x.scalar_type() == at::kHalf   ? abi::data_type::float16
         : x.scalar_type() == at::kDouble ? abi::data_type::float64
                                          : abi::data_type::float32;
}

c10::Stream new_stream(int device, bool high_priority) {
  return c10::impl::VirtualGuardImpl{c10::kCUDA}.getStreamFromGlobalPool(
    {c10::kCUDA, static_cast<c10::DeviceIndex>(device)}, high_priority);
}

c10::impl::VirtualGuardImpl device_of(c10::Stream x) {
  return c10::impl::VirtualGuardImpl{x.device_type()};
}

abi::stream handle(c10::Stream x) {
  return x.native_handle();
}

const void* address(const at::Tensor& x) {
  return x.const_data_ptr();
}

size_t count(const at::Tensor& x) {
  return static_cast<size_t>(x.numel());
}

/// Long enough for all that is not hopeless.
bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 2000; ++i) {
    if (holds())
      return true;
    if (i > 200)
      std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
  return false;
}

} // namespace

abi::unique_id new_id() {
  abi::unique_id out;
  name<abi::result(abi::unique_id*)>("ncclGetUniqueId")(&out);
  return out;
}

const std::string& breaches() {
  return all_breaches;
}

// -- one ----------------------------------------------------------------------

tested_rank::tested_rank(const abi::unique_id& id, int number, int size,
                         int device)
  : number_(number), stream_(new_stream(device, true)),
    other_(new_stream(device, false)) {
  c10::DeviceGuard guard{stream_.device()};
  abi::comm_config how;
  name<abi::result(abi::comm*, int, abi::unique_id, int, abi::comm_config*)>(
    "ncclCommInitRankConfig")(&comm_, size, id, number, &how);
}

tested_rank::~tested_rank() {
  if (comm_ != nullptr)
    abort();
  soon([this] { return stream_.query(); });
}

abi::result tested_rank::state() {
  c10::DeviceGuard guard{device()};
  auto out = abi::result::success;
  name<abi::result(abi::comm, abi::result*)>("ncclCommGetAsyncError")(comm_,
                                                                      &out);
  return out;
}

std::string tested_rank::why() {
  return name<const char*(abi::comm)>("ncclGetLastError")(comm_);
}

abi::result tested_rank::send(const at::Tensor& x, int to) {
  c10::DeviceGuard guard{device()};
  return send_here(x, to);
}

abi::result tested_rank::send_here(const at::Tensor& x, int to) {
  over_.reset();
  return name<abi::result(const void*, size_t, abi::data_type, int, abi::comm,
                          abi::stream)>("ncclSend")(
    address(x), count(x), type_of(x), to, comm_, handle(stream_));
}

abi::result tested_rank::receive(const at::Tensor& x, int from) {
  c10::DeviceGuard guard{device()};
  over_.reset();
  return name<abi::result(void*, size_t, abi::data_type, int, abi::comm,
                          abi::stream)>("ncclRecv")(
    x.mutable_data_ptr(), count(x), type_of(x), from, comm_, handle(stream_));
}

abi::result tested_rank::reduce_scatter(const at::Tensor& x,
                                        const at::Tensor& range) {
  c10::DeviceGuard guard{device()};
  over_.reset();
  return name<abi::result(const void*, void*, size_t, abi::data_type,
                          abi::reduction, abi::comm, abi::stream)>(
    "ncclReduceScatter")(address(x), range.mutable_data_ptr(), count(range),
                         type_of(x), abi::reduction::sum, comm_,
                         handle(stream_));
}

abi::result tested_rank::all_gather(const at::Tensor& range,
                                    const at::Tensor& x) {
  c10::DeviceGuard guard{device()};
  over_.reset();
  return name<abi::result(const void*, void*, size_t, abi::data_type, abi::comm,
                          abi::stream)>("ncclAllGather")(
    address(range), x.mutable_data_ptr(), count(range), type_of(x), comm_,
    handle(stream_));
}

void tested_rank::wait_for(c10::Stream before) {
  c10::Event event{c10::kCUDA};
  event.record(before);
  event.block(stream_);
}

void tested_rank::wait_here() {
  c10::Event event{c10::kCUDA};
  event.record(stream_);
  event.block(device_of(stream_).getStream(device()));
}

bool tested_rank::is_over() {
  if (comm_ != nullptr && state() == abi::result::in_progress)
    return false;
  if (!over_) {
    over_.emplace(c10::kCUDA);
    over_->record(stream_);
  }
  return over_->query();
}

void tested_rank::abort() {
  c10::DeviceGuard guard{device()};
  ended_ = std::exchange(comm_, nullptr);
  name<abi::result(abi::comm)>("ncclCommAbort")(ended_);
}

void tested_rank::abort_again() {
  c10::DeviceGuard guard{device()};
  name<abi::result(abi::comm)>("ncclCommAbort")(ended_);
}

// -- all ----------------------------------------------------------------------

tested_ranks::tested_ranks(int size, int devices) {
  all_breaches.clear();
  auto id = new_id();
  name<void(void (*)(const char*))>("fake_nccl_on_breach")(&add_breach);
  for (int i = 0; i < size; ++i)
    ranks.push_back(std::make_unique<tested_rank>(id, i, size, i % devices));
}

tested_ranks::tested_ranks(const abi::unique_id& id, int size,
                           const std::vector<int>& here) {
  all_breaches.clear();
  name<void(void (*)(const char*))>("fake_nccl_on_breach")(nullptr);
  for (auto each : here)
    ranks.push_back(std::make_unique<tested_rank>(id, each, size, each));
}

tested_ranks::~tested_ranks() {
  spoil("");
}

void tested_ranks::spoil(const std::string& faults) {
  name<void(const char*)>("fake_nccl_spoil")(faults.c_str());
}

bool tested_ranks::meet() {
  return soon([this] {
    return std::ranges::all_of(
      ranks, [](auto& each) { return each->state() == abi::result::success; });
  });
}

void tested_ranks::until_come_in() {
  soon([this] {
    return std::ranges::none_of(ranks, [](auto& each) {
      return each->state() == abi::result::in_progress;
    });
  });
}

void tested_ranks::let_go_on() {
  for (int i = 0; i < 200; ++i)
    for (auto& each : ranks)
      each->state();
}

bool tested_ranks::until_over() {
  return soon([this] {
    auto over = true;
    for (auto& each : ranks)
      over = each->is_over() && over;
    return over;
  });
}

} // namespace troupe::testing::fake_nccl
