#pragma once
// Both ends of the paths of several workers over the fake NCCL, in real
// threads, and a double of a synchronous server; without actors. Owned by a
// test; its functions may be called from the test's threads.

#include "messages/transport/nccl/collective_carrier.hpp"
#include "messages/types.hpp"
#include "tests/nccl/check_clean.hpp"
#include "tests/support/payloads.hpp"
#include "tests/support/sockets.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <future>
#include <random>
#include <set>
#include <thread>

namespace troupe::test {

using namespace transport;

inline constexpr payload_shape shape{element_type::float32, 500};
inline constexpr auto patience = std::chrono::seconds(20);

inline double now() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

/// Whole numbers, whose mean over 1, 2 or 4 workers is exact in any order.
inline payload gradient_of(size_t worker, uint64_t step) {
  payload_buffer out{shape};
  std::vector<float> numbers(shape.count);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] =
      12 * (static_cast<float>((worker * 7 + step * 13 + i * 3) % 101) - 50);
  std::memcpy(out.bytes().data(), numbers.data(), out.bytes().size());
  return std::move(out).seal();
}

using weighted = std::vector<std::pair<payload, uint64_t>>;

/// The weights that a synchronous server makes of the pushes that it has.
inline payload mean_of(const weighted& all) {
  payload_buffer out{shape};
  std::vector<float> numbers(shape.count);
  for (size_t i = 0; i < numbers.size(); ++i) {
    double sum = 0;
    double samples = 0;
    for (const auto& [gradient, count] : all) {
      sum += static_cast<double>(count) * number_of(gradient, i);
      samples += static_cast<double>(count);
    }
    numbers[i] = static_cast<float>(sum / samples);
  }
  std::memcpy(out.bytes().data(), numbers.data(), out.bytes().size());
  return std::move(out).seal();
}

inline bool close_to(const payload& x, const payload& y) {
  for (size_t i = 0; i < shape.count; ++i)
    if (std::abs(number_of(x, i) - number_of(y, i)) >
        1e-5 * (1 + std::abs(number_of(y, i))))
      return false;
  return true;
}

/// Received frames, until the path is closed.
class inbox {
public:
  void put(size_t from, std::optional<frame> message) {
    std::lock_guard guard{mutex_};
    all_.emplace_back(from, std::move(message));
    changed_.notify_all();
  }

  /// Returns false when nothing arrives in time.
  bool take_next(std::pair<size_t, std::optional<frame>>& out) {
    std::unique_lock guard{mutex_};
    if (!changed_.wait_for(guard, patience, [this] { return !all_.empty(); }))
      return false;
    out = std::move(all_.front());
    all_.pop_front();
    return true;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<size_t, std::optional<frame>>> all_;
};

/// One end of a path with the threads that serve it.
struct served {
  served(path_ptr way, std::shared_ptr<inbox> to, size_t number)
    : end(std::move(way)) {
    end->on_frame(
      [to, number](frame message) { to->put(number, std::move(message)); });
    auto wakes = bell;
    end->on_work([wakes] {
      std::lock_guard guard{wakes->mutex};
      wakes->rung = true;
      wakes->changed.notify_all();
    });
    reader = std::async(std::launch::async, [way = end, to, number] {
      try {
        while (auto next = way->receive())
          to->put(number, std::move(next));
      } catch (const path_error& err) {
        way->close(err.what());
      }
      to->put(number, std::nullopt);
    });
    poller = std::async(std::launch::async, [way = end, wakes] {
      while (auto next = way->poll(now())) {
        std::unique_lock guard{wakes->mutex};
        wakes->changed.wait_for(
          guard, std::chrono::duration<double>(std::min(*next, 5.)),
          [&] { return wakes->rung; });
        wakes->rung = false;
      }
    });
  }

  ~served() { stop(); }

  void stop() {
    end->close("over");
    reader.wait();
    poller.wait();
  }

  struct waker {
    std::mutex mutex;
    std::condition_variable changed;
    bool rung = false;
  };

  path_ptr end;
  std::shared_ptr<waker> bell = std::make_shared<waker>();
  std::future<void> reader, poller;
};

/// Workers and a server, connected by paths.
class company {
public:
  explicit company(uint64_t seed = 1, double waiting = 10) {
    fake::reset(seed);
    collective_terms terms;
    terms.library = fake::library();
    terms.weights = shape;
    terms.limits = limits;
    terms.transfer = .5;
    terms.settling = .02;
    terms.waiting = waiting;
    terms.say = [this](const std::string& line) {
      std::lock_guard guard{saying_};
      said_ += line + '\n';
    };
    terms.rules.pause = .01;
    terms.rules.failures = 1000;
    root = std::make_shared<collective_coordinator>(std::move(terms));
    server_ = std::async(std::launch::async, [this] { serve(); });
  }

  ~company() {
    {
      std::lock_guard guard{mutex_};
      over_ = true;
    }
    requests_->put(0, std::nullopt);
    server_.wait();
    ends_.clear();
  }

  /// A worker joins; returns its number.
  size_t join() {
    auto [near, far] = socket_pair();
    nccl_terms with;
    with.library = fake::library();
    with.device = 1;
    with.limits = limits;
    with.transfer = .5;
    std::lock_guard guard{mutex_};
    auto number = ends_.size();
    workers_.push_back(std::make_shared<inbox>());
    ends_.push_back(
      {std::make_unique<served>(make_path<collective_carrier>(
                                  std::move(near), path_terms{shape}, with),
                                workers_.back(), number),
       std::make_unique<served>(
         make_path<seat_carrier>(std::move(far), path_terms{shape}, root),
         requests_, number)});
    present_.insert(number);
    return number;
  }

  void kill(size_t worker) { near(worker).end->close("killed"); }

  /// The server no longer waits for this worker; its path stays open.
  void dismiss(size_t worker) {
    std::lock_guard guard{mutex_};
    present_.erase(worker);
  }

  /// The same, and the collective coordinator is told.
  void expel(size_t worker) {
    std::lock_guard guard{mutex_};
    present_.erase(worker);
    leave(worker);
  }

  /// Pushes this worker's gradient; returns whether the answer is the mean of a
  /// step that contains it.
  bool push(size_t worker, uint64_t step, uint64_t samples = 32) {
    push_header header;
    header.id = {worker_id{static_cast<uint32_t>(worker)}, life_number{1},
                 sequence{step}};
    header.samples = samples;
    near(worker).end->send({frame_kind::push, transfer_id{step},
                            write_header(header), gradient_of(worker, step)});
    auto answer = wait(worker);
    if (!answer || answer->kind != frame_kind::release ||
        answer->request != transfer_id{step} || !answer->tensor)
      return false;
    auto made = read_header<release_header>(answer->header).weights;
    std::lock_guard guard{mutex_};
    const auto& step_of = steps_.at(made.value - 1);
    weighted parts;
    for (const auto& [who, what] : step_of)
      parts.emplace_back(gradient_of(who, what.first), what.second);
    return step_of.contains(worker) && close_to(answer->tensor, mean_of(parts));
  }

  /// Asks for weights without a gradient, and waits for them.
  bool pull(size_t worker, uint64_t request) {
    near(worker).end->send({frame_kind::pull, transfer_id{request}, {}, {}});
    auto answer = wait(worker);
    return answer && answer->kind == frame_kind::release;
  }

  std::optional<frame> wait(size_t worker) {
    std::shared_ptr<inbox> from;
    {
      std::lock_guard guard{mutex_};
      from = workers_.at(worker);
    }
    std::pair<size_t, std::optional<frame>> next;
    return from->take_next(next) ? std::move(next.second) : std::nullopt;
  }

  bool meet() {
    for (auto till = now() + 10; now() < till && !root->is_open();)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return root->is_open();
  }

  /// Whether a line of the log contains these words.
  bool said(const std::string& words) {
    std::lock_guard guard{saying_};
    return said_.find(words) != std::string::npos;
  }

  collective_coordinator_ptr root;

private:
  static constexpr nccl::patience limits{.5, .5, .2};

  struct both {
    std::unique_ptr<served> near, far;
  };

  served& near(size_t worker) {
    std::lock_guard guard{mutex_};
    return *ends_.at(worker).near;
  }

  /// Ends a step when all members have pushed or wait.
  void serve() {
    std::map<size_t, frame> pushes, pulls;
    std::pair<size_t, std::optional<frame>> next;
    while (requests_->take_next(next)) {
      std::lock_guard guard{mutex_};
      if (over_)
        return;
      auto& [who, what] = next;
      if (!what) {
        present_.erase(who);
        pulls.erase(who);
        leave(who);
      } else if (what->kind == frame_kind::push) {
        take_push(who, std::move(*what), pushes);
      } else {
        pulls[who] = std::move(*what);
      }
      auto computes = [&](size_t one) {
        return !pushes.contains(one) && !pulls.contains(one);
      };
      if (pushes.empty() || std::ranges::any_of(present_, computes))
        continue;
      answer(std::exchange(pushes, {}), std::exchange(pulls, {}));
    }
  }

  // As the lead does: pushes of one sum count together or not at all.
  void take_push(size_t who, frame push, std::map<size_t, frame>& pushes) {
    auto id = read_header<push_header>(push.header).id;
    auto sum = root->find(id, push.tensor);
    if (!sum) {
      pushes[who] = std::move(push);
      return;
    }
    if (sum->over)
      return refuse(who, push);
    auto& all = gathered_[sum->number];
    all.what = *sum;
    all.here.emplace(who, std::move(push));
    auto gone = std::ranges::any_of(sum->pushes, [this](const push_id& one) {
      return !present_.contains(one.worker.value);
    });
    if (gone)
      return give_up(gathered_.extract(sum->number).mapped());
    if (all.here.size() < sum->pushes.size())
      return;
    root->note_accepted(sum->number);
    pushes.merge(gathered_.extract(sum->number).mapped().here);
  }

  struct gathered {
    gradient_sum what;
    std::map<size_t, frame> here;
  };

  void give_up(const gathered& sum) {
    root->give_up(sum.what.number);
    for (const auto& [who, push] : sum.here)
      refuse(who, push);
  }

  void refuse(size_t who, const frame& push) {
    ends_.at(who).far->end->send({frame_kind::refusal,
                                  push.request,
                                  write_header(refusal{errc::failed, "void"}),
                                  {}});
  }

  void leave(size_t who) {
    root->left(worker_id{static_cast<uint32_t>(who)}, life_number{1});
    for (auto it = gathered_.begin(); it != gathered_.end();) {
      auto is_theirs = [who](const push_id& id) {
        return id.worker.value == who;
      };
      auto next = std::next(it);
      if (std::ranges::any_of(it->second.what.pushes, is_theirs))
        give_up(gathered_.extract(it).mapped());
      it = next;
    }
  }

  void answer(std::map<size_t, frame> pushes, std::map<size_t, frame> pulls) {
    weighted all;
    auto& step = steps_.emplace_back();
    for (const auto& [who, what] : pushes) {
      auto header = read_header<push_header>(what.header);
      step[who] = {header.id.seq.value, header.samples};
      all.emplace_back(what.tensor, header.samples);
    }
    auto weights = mean_of(all);
    release_header header;
    header.weights = version{steps_.size()};
    for (const auto* asked : {&pushes, &pulls})
      for (const auto& [who, what] : *asked)
        ends_.at(who).far->end->send(
          {frame_kind::release, what.request, write_header(header), weights});
  }

  std::mutex mutex_;
  std::shared_ptr<inbox> requests_ = std::make_shared<inbox>();
  std::vector<std::shared_ptr<inbox>> workers_;
  std::vector<both> ends_;
  std::set<size_t> present_;
  std::map<uint64_t, gathered> gathered_;
  /// For each version: the workers, steps and numbers of samples of its
  /// gradients.
  std::vector<std::map<size_t, std::pair<uint64_t, uint64_t>>> steps_;
  bool over_ = false;
  std::mutex saying_; ///< The coordinator logs while it is called.
  std::string said_;
  std::future<void> server_;
};

using fake::check_clean;

/// All workers push, step after step; returns the number of wrong answers.
size_t train(
  company& all, const std::vector<size_t>& workers, uint64_t first,
  uint64_t steps,
  const std::function<uint64_t(size_t)>& samples = [](size_t) { return 32; }) {
  std::vector<std::future<size_t>> runs;
  for (auto worker : workers)
    runs.push_back(std::async(std::launch::async, [&, worker] {
      size_t wrong = 0;
      for (auto step = first; step < first + steps; ++step)
        wrong += !all.push(worker, step, samples(worker));
      return wrong;
    }));
  size_t wrong = 0;
  for (auto& run : runs)
    wrong += run.get();
  return wrong;
}

/// Makes so many workers that have joined a communicator.
inline std::vector<size_t> gather(company& all, size_t count) {
  std::vector<size_t> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(all.join());
  // The first push tells that a worker would be part of it.
  CHECK(train(all, out, 1, 1) == 0);
  REQUIRE(all.meet());
  return out;
}

} // namespace troupe::test
