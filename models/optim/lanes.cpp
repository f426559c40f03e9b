#include "models/optim/lanes.hpp"

#include <c10/core/thread_pool.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

namespace troupe::models {

namespace {

/// There are more pieces than threads, so that a thread that gets a core late,
/// or is interrupted, leaves its pieces to the others.
constexpr size_t pieces_of_a_thread = 8;

/// A pass that threads share. A thread may look at it when it is over, and then
/// finds nothing to do.
class shared_pass {
public:
  using work = std::function<void(size_t, size_t)>;

  shared_pass(size_t count, size_t grain, size_t pieces, const work& job)
    : count_(count), grain_(grain), pieces_(pieces), left_(pieces), what_(job) {
    // nop
  }

  /// Does pieces until none is left.
  void help() noexcept {
    for (auto i = next_++; i < pieces_; i = next_++) {
      try {
        what_(begin_of(i), std::min(count_, begin_of(i + 1)));
      } catch (...) {
        keep(i, std::current_exception());
      }
      if (--left_ == 0)
        left_.notify_one();
    }
  }

  /// Waits until all pieces are done.
  void end() {
    for (auto left = left_.load(); left > 0; left = left_.load())
      left_.wait(left);
    if (failed_)
      std::rethrow_exception(failed_);
  }

private:
  size_t begin_of(size_t piece) const {
    auto grains = (count_ + grain_ - 1) / grain_;
    return grains * piece / pieces_ * grain_;
  }

  void keep(size_t piece, std::exception_ptr why) {
    std::lock_guard lock{guard_};
    if (failed_ && first_failed_ < piece)
      return;
    first_failed_ = piece;
    failed_ = std::move(why);
  }

  const size_t count_;
  const size_t grain_;
  const size_t pieces_;
  std::atomic<size_t> next_ = 0;
  std::atomic<size_t> left_;
  const work& what_; ///< Only until the end.
  std::mutex guard_; ///< Of those below.
  size_t first_failed_ = 0;
  std::exception_ptr failed_;
};

} // namespace

lanes::lanes(size_t count) {
  if (count > 1)
    others_ = std::make_shared<c10::ThreadPool>(static_cast<int>(count - 1));
}

size_t lanes::count() const {
  return others_ ? others_->size() + 1 : 1;
}

void lanes::each(size_t count, size_t grain,
                 const std::function<void(size_t, size_t)>& work) const {
  auto grains = (count + grain - 1) / grain;
  auto threads = std::min(this->count(), grains);
  if (threads < 2)
    return work(0, count);
  auto pass = std::make_shared<shared_pass>(
    count, grain, std::min(grains, threads * pieces_of_a_thread), work);
  for (size_t i = 1; i < threads; ++i)
    others_->run([pass] { pass->help(); });
  pass->help();
  pass->end();
}

} // namespace troupe::models
