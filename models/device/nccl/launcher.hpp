#pragma once
// The thread that alone calls NCCL for a device, and sleeps while nothing is
// under way. Others give it orders, which it carries out in turn; it looks
// after the ranks that are added to it until they are gone.

#include "messages/transport/nccl/gpu_network.hpp"
#include "models/device/nccl/communicator.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace troupe::models::nccl {

/// Seconds of the clock by which communicators are polled.
double seconds_now();

/// A rank, as the thread and its owner share it.
struct member {
  std::mutex mutex; ///< Guards `phase` and `why`.
  transport::gpu_group::phase phase = transport::gpu_group::phase::meeting;
  std::string why;
  std::mutex telling;
  transport::phase_told told;        ///< Guarded by `telling`.
  std::unique_ptr<communicator> its; ///< The thread's; made by it.
};

using member_ptr = std::shared_ptr<member>;

class launcher;

using launcher_ptr = std::shared_ptr<launcher>;

/// Owns the thread. Thread-safe, but for `add`.
class launcher {
public:
  /// The last reference stops all ranks and waits for the thread. What is told
  /// by the thread itself may hold that reference: then it ends on its own.
  static launcher_ptr start(library_ptr lib, int device);

  launcher(const launcher&) = delete;
  launcher& operator=(const launcher&) = delete;

  const library& lib() const { return *lib_; }
  library_ptr shared_lib() const { return lib_; }
  int device() const { return device_; }

  void order(std::function<void()> work);

  /// By the thread only.
  void add(const member_ptr& one) { members_.push_back(one); }

private:
  launcher(library_ptr lib, int device);
  ~launcher() = default;

  void end();
  void run();
  bool wait(double seconds);
  double poll();

  library_ptr lib_;
  int device_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::function<void()>> orders_;
  bool closing_ = false;
  bool is_on_its_own_ = false;              ///< The thread's.
  std::deque<std::function<void()>> taken_; ///< Of the thread, as the next.
  std::vector<member_ptr> members_;
  std::thread thread_; ///< The last member: it uses the others.
};

} // namespace troupe::models::nccl
