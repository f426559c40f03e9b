#include "actors/runtime/inline_execution.hpp"

#include <caf/execution_unit.hpp>
#include <caf/policy/work_sharing.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/coordinator.hpp>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace troupe {

namespace {

class inline_execution;

/// The actors that this thread collects or runs.
thread_local inline_execution* at_hand = nullptr;

/// The most messages that are handled for one actor. More would keep the thread
/// from its own work when all ask the same actor.
constexpr size_t at_a_time = 4;

/// An actor that took longer than this for a message leaves its next one to
/// another thread. Shorter work is not worth waking a thread, which would
/// interrupt one that computes.
constexpr auto brief = std::chrono::milliseconds(1);

class inline_execution final : public caf::execution_unit {
public:
  using caf::execution_unit::execution_unit;

  /// An actor that ran here may become ready later, on another thread.
  void exec_later(caf::resumable* job) override {
    if (at_hand == this)
      ready_.push_back({job, 0});
    else
      system().scheduler().enqueue(job);
  }

  void collect(const std::function<void()>& begin) {
    auto before = std::exchange(at_hand, this);
    try {
      begin();
    } catch (...) {
      at_hand = before;
      leave_all_to_others();
      throw;
    }
    at_hand = before;
  }

  void run() {
    auto before = std::exchange(at_hand, this);
    while (!ready_.empty()) {
      auto next = take_ready();
      if (!resume(next))
        caf::intrusive_ptr_release(next.job);
      else if (next.may_go_on)
        ready_.push_back(next); // The others first.
      else
        leave_to_others(next.job);
    }
    at_hand = before;
  }

private:
  struct ready_actor {
    caf::resumable* job;
    size_t handled; ///< Messages of its turns so far.
    bool may_go_on = true;
  };

  /// Handles one message; returns whether the actor has more.
  bool resume(ready_actor& next) {
    auto began = std::chrono::steady_clock::now();
    auto how = next.job->resume(this, 1);
    next.may_go_on = ++next.handled < at_a_time &&
                     std::chrono::steady_clock::now() - began <= brief;
    return how == caf::resumable::resume_later;
  }

  ready_actor take_ready() {
    auto next = ready_.front();
    ready_.pop_front();
    return next;
  }

  void leave_to_others(caf::resumable* job) {
    auto before = std::exchange(at_hand, nullptr);
    system().scheduler().enqueue(job);
    at_hand = before;
  }

  void leave_all_to_others() {
    while (!ready_.empty())
      leave_to_others(take_ready().job);
  }

  std::deque<ready_actor> ready_;
};

using shared_queue = caf::scheduler::coordinator<caf::policy::work_sharing>;

/// CAF's scheduler with one queue for all of its threads. A thread in inline
/// execution keeps the actors that it makes ready.
class scheduler final : public shared_queue {
public:
  using shared_queue::shared_queue;

  static void add_module_options(caf::actor_system_config&) {
    // CAF has already added those of the scheduler.
  }

  static module* make(caf::actor_system& system, caf::detail::type_list<>) {
    return new scheduler(system);
  }

  void enqueue(caf::resumable* job) override {
    if (at_hand != nullptr && &at_hand->system() == &system())
      at_hand->exec_later(job);
    else
      shared_queue::enqueue(job);
  }

  void run_inline(const std::function<void()>& begin) {
    auto give_back = [this](inline_execution* mine) {
      std::lock_guard guard{mutex_};
      idle_.push_back(mine);
    };
    std::unique_ptr<inline_execution, decltype(give_back)> mine{borrow(),
                                                                give_back};
    mine->collect(begin);
    mine->run();
  }

private:
  inline_execution* borrow() {
    std::lock_guard guard{mutex_};
    if (idle_.empty()) {
      all_.push_back(std::make_unique<inline_execution>(&system()));
      idle_.reserve(all_.size()); // So that giving back cannot fail.
      return all_.back().get();
    }
    auto* result = idle_.back();
    idle_.pop_back();
    return result;
  }

  std::mutex mutex_;
  /// An actor keeps a pointer to where it ran last, so these live as long as
  /// all actors.
  std::vector<std::unique_ptr<inline_execution>> all_;
  std::vector<inline_execution*> idle_;
};

} // namespace

void allow_inline_execution(caf::actor_system_config& config, size_t threads) {
  config.set("caf.scheduler.max-threads", threads);
  config.load<scheduler>();
}

void run_inline(caf::actor_system& system, const std::function<void()>& begin) {
  if (auto* ours = dynamic_cast<scheduler*>(&system.scheduler()))
    ours->run_inline(begin);
  else
    begin();
}

} // namespace troupe
