#include "actors/recording/console.hpp"

#include "actors/recording/log_lines.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

namespace troupe::recording {

namespace {

/// The most bytes that may wait.
constexpr size_t most_waiting = 1 << 16;

} // namespace

struct console::state {
  explicit state(int file) : file_(file) {
    // nop
  }

  void add(std::string_view text, bool stale_soon) {
    std::lock_guard guard{mutex_};
    auto room = waiting_.empty() && !writes_;
    if (!stale_soon)
      room = waiting_.size() + text.size() <= most_waiting;
    if (broken_)
      return;
    if (!room) {
      left_out_ += !stale_soon || is_stuck();
      return;
    }
    if (left_out_ > 0 && !stale_soon)
      waiting_ += gap();
    waiting_ += text;
    changed_.notify_all();
  }

  bool flush(double patience) {
    std::unique_lock guard{mutex_};
    auto done = [this] {
      return waiting_.empty() && !writes_;
    };
    for (auto before = written_; !done(); before = written_) {
      changed_.wait_for(guard, std::chrono::duration<double>(patience),
                        [&] { return done() || written_ != before; });
      if (!done() && written_ == before)
        return false;
    }
    return true;
  }

  /// Runs for ever on a thread of its own.
  void run() {
    std::unique_lock guard{mutex_};
    for (;;) {
      changed_.wait(guard, [this] { return !waiting_.empty(); });
      auto text = std::exchange(waiting_, {});
      writes_ = true;
      since_ = clock::now();
      for (std::string_view rest = text; !rest.empty() && !broken_;) {
        guard.unlock();
        auto n = put(rest);
        guard.lock();
        broken_ = n < 0;
        rest.remove_prefix(static_cast<size_t>(n > 0 ? n : 0));
        written_ += static_cast<uint64_t>(n > 0 ? n : 0);
        since_ = clock::now();
        changed_.notify_all();
      }
      writes_ = false;
      changed_.notify_all();
    }
  }

private:
  using clock = std::chrono::steady_clock;

  bool is_stuck() const {
    return writes_ && clock::now() - since_ > std::chrono::seconds(1);
  }

  /// The bytes written; below 0 when no write will ever succeed.
  ssize_t put(std::string_view text) const {
    auto n = ::write(file_, text.data(), text.size());
    if (n >= 0)
      return n;
    if (errno == EAGAIN) {
      pollfd room{file_, POLLOUT, 0};
      ::poll(&room, 1, -1);
    }
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
  }

  std::string gap() {
    return log_lines::of_process().make(
      "(left out    " + std::to_string(std::exchange(left_out_, 0)) +
      " lines, since nobody read them in time)");
  }

  int file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;
  bool writes_ = false;
  clock::time_point since_; ///< When it last made progress.
  bool broken_ = false;     ///< The reader has gone away.
  uint64_t written_ = 0;
  uint64_t left_out_ = 0;
};

// The thread may be stuck in a write for ever, so nobody waits for it.
console::console(int file) : state_(std::make_shared<state>(file)) {
  std::thread{[mine = state_] {
    mine->run();
  }}.detach();
}

console& console::standard_output() {
  static auto* one = new console{STDOUT_FILENO};
  return *one;
}

console& console::standard_error() {
  static auto* one = new console{STDERR_FILENO};
  return *one;
}

void console::say(std::string_view line) {
  write(log_lines::of_process().make(line));
}

void console::write(std::string_view text) {
  state_->add(text, false);
}

void console::show(std::string_view text) {
  state_->add(text, true);
}

bool console::flush(double patience) {
  return state_->flush(patience);
}

} // namespace troupe::recording
