#include "models/device/nccl/launcher.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace troupe::models::nccl {

namespace {

using transport::gpu_group;

constexpr double for_ever = std::numeric_limits<double>::infinity();

void tell_phase(member& one) {
  auto found = one.its->state();
  auto now = found == communicator::phase::meeting ? gpu_group::phase::meeting
             : found == communicator::phase::open  ? gpu_group::phase::open
                                                   : gpu_group::phase::over;
  auto why = one.its->why();
  {
    std::lock_guard guard{one.mutex};
    if (std::exchange(one.phase, now) == now)
      return;
    one.why = why;
  }
  std::lock_guard guard{one.telling};
  if (one.told)
    one.told(now, why);
}

} // namespace

double seconds_now() {
  std::chrono::duration<double> since =
    std::chrono::steady_clock::now().time_since_epoch();
  return since.count();
}

launcher_ptr launcher::start(library_ptr lib, int device) {
  return {new launcher(std::move(lib), device), [](launcher* x) {
            x->end();
          }};
}

launcher::launcher(library_ptr lib, int device)
  : lib_(std::move(lib)), device_(device), thread_([this] {
      run();
      if (is_on_its_own_)
        delete this;
    }) {
  // nop
}

void launcher::end() {
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
    is_on_its_own_ = true;
  }
  auto waits = thread_.joinable();
  {
    std::lock_guard guard{mutex_};
    closing_ = true;
    news_.notify_one();
  }
  if (waits) {
    thread_.join();
    delete this;
  }
}

void launcher::order(std::function<void()> work) {
  {
    std::lock_guard guard{mutex_};
    orders_.push_back(std::move(work));
  }
  news_.notify_one();
}

void launcher::run() {
  c10::impl::VirtualGuardImpl{c10::kCUDA}.setDevice(
    {c10::kCUDA, static_cast<c10::DeviceIndex>(device_)});
  at::NoGradGuard no_grad;
  auto next = for_ever;
  while (wait(next)) {
    for (auto& work : std::exchange(taken_, {}))
      work();
    next = poll();
  }
  for (auto& one : members_)
    one->its->stop("the network is closed", seconds_now());
  poll();
}

/// Waits for orders, at most so many seconds; false: to end.
bool launcher::wait(double seconds) {
  std::unique_lock guard{mutex_};
  auto wanted = [this] {
    return closing_ || !orders_.empty();
  };
  if (seconds == for_ever)
    news_.wait(guard, wanted);
  else
    news_.wait_for(guard, std::chrono::duration<double>(seconds), wanted);
  taken_ = std::exchange(orders_, {});
  return !closing_ || !taken_.empty();
}

/// Lets all ranks make progress. Returns in how many seconds to call again.
double launcher::poll() {
  auto next = for_ever;
  for (const auto& one : members_) {
    next = std::min(next, one->its->poll(seconds_now()));
    tell_phase(*one);
    one->its->tell_failures();
  }
  std::erase_if(members_, [](const member_ptr& one) {
    return one->its->state() == communicator::phase::gone;
  });
  return members_.empty() ? for_ever : next;
}

} // namespace troupe::models::nccl
