#pragma once
// The real parameter server and real paths over the fake NCCL, in one thread:
// frames, answers and faults come in an order drawn from a seed. Owned by a
// test.

#include "actors/server/parameter_server.hpp"
#include "apps/lab/simulation/invariant_checker.hpp"
#include "messages/transport/nccl/collective_carrier.hpp"
#include "tests/nccl/fake_nccl.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/sockets.hpp"
#include "tests/support/tiny_net.hpp"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <random>

namespace troupe::test {

using namespace transport;

inline constexpr payload_shape shape{element_type::float32, tiny_size};
inline constexpr double lr = 0.01;

/// The gradient of a lease's samples.
inline double number(lease_id from, size_t i) {
  return static_cast<double>((from.value * 7 + i * 3) % 41) - 20;
}

inline payload gradient_of(lease_id from, bool bad) {
  payload_buffer out{shape};
  std::vector<float> numbers(shape.count);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(number(from, i));
  if (bad)
    numbers[100] = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(out.bytes().data(), numbers.data(), out.bytes().size());
  return std::move(out).seal();
}

using weights_of = std::vector<double>;

/// Checks the server's promises, and knows what its weights must be.
class audit final : public event_subscriber {
public:
  explicit audit(simulation::invariant_rules rules)
    : promises(std::move(rules)) {
    // nop
  }

  void on_event(const event& entry) override {
    if (const auto* in = std::get_if<inputs::arrived>(&entry.what)) {
      const auto& header = in->header;
      if (in->refused == errc::none)
        held_[header.id] = header;
      else if (++refusals[header.id.worker]; header.id.worker == bad)
        return promises.pulled(header.id.worker,
                               header.from); // The lease is free.
    }
    promises.on_event(entry);
    for (const auto& step : entry.decided.updates)
      apply(step);
  }

  bool knows(version which, const payload& found) {
    if (which == version{0} && versions.empty())
      for (size_t i = 0; i < shape.count; ++i)
        versions[which].push_back(at(found, i));
    for (size_t i = 0; i < shape.count; ++i)
      if (std::abs(versions.at(which)[i] - at(found, i)) > 1e-3)
        return false;
    return true;
  }

  simulation::invariant_checker promises;
  std::optional<worker_id> bad; ///< None of its gradients is finite.
  std::map<version, weights_of> versions;
  std::map<worker_id, int> refusals;
  size_t most_at_once = 0;

private:
  void apply(const cores::update_order& step) {
    auto& next = versions[step.makes];
    next = versions.at(version{step.makes.value - 1});
    double samples = 0;
    for (const auto& part : step.gradients)
      samples += static_cast<double>(held_.at(part.id).samples);
    for (const auto& part : step.gradients) {
      const auto& header = held_.at(part.id);
      for (size_t i = 0; i < next.size(); ++i)
        next[i] -= lr * static_cast<double>(header.samples) / samples *
                   number(header.from, i);
    }
    most_at_once = std::max(most_at_once, step.gradients.size());
  }

  static double at(const payload& from, size_t i) {
    float out = 0;
    std::memcpy(&out, from.host_bytes().data() + i * sizeof out, sizeof out);
    return out;
  }

  std::map<push_id, push_header> held_; ///< All that arrived sound.
};

/// The test's end of a connection: forwards frames when the test says so.
class wire {
public:
  explicit wire(transport::socket end) : end_(std::move(end)) {
    // nop
  }

  /// Receives what was sent in the meantime.
  void look() {
    int bytes = 0;
    while (ioctl(end_.get(), FIONREAD, &bytes) == 0 && bytes > 0) {
      auto old = read_.size();
      read_.resize(old + static_cast<size_t>(bytes));
      auto n =
        ::recv(end_.get(), read_.data() + old, static_cast<size_t>(bytes), 0);
      read_.resize(old + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    }
    while (auto size = first_size()) {
      frames.emplace_back(read_.begin(),
                          read_.begin() + static_cast<ptrdiff_t>(size));
      read_.erase(read_.begin(), read_.begin() + static_cast<ptrdiff_t>(size));
    }
  }

  /// Sends a frame followed by an empty one, so that the reader returns.
  void put(std::vector<std::byte> frame) {
    auto last = encode(frame_head{});
    frame.insert(frame.end(), last.begin(), last.end());
    if (::send(end_.get(), frame.data(), frame.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(frame.size()))
      throw path_error{"the test's socket is full"};
  }

  std::deque<std::vector<std::byte>> frames;

private:
  size_t first_size() const {
    if (read_.size() < frame_head::size)
      return 0;
    head_bytes bytes;
    std::copy_n(read_.begin(), bytes.size(), bytes.begin());
    auto head = decode(bytes);
    auto size = frame_head::size + size_t{8} * head.let_gos +
                head.header_bytes +
                (head.carried == carriage::follows ? head.shape.bytes() : 0);
    return read_.size() < size ? 0 : size;
  }

  transport::socket end_;
  std::vector<std::byte> read_;
};

/// Reads all frames up to the empty one.
inline std::vector<frame> read_all(path& from) {
  std::vector<frame> out;
  while (auto next = from.receive()) {
    if (next->kind == frame_kind::let_go)
      break;
    out.push_back(std::move(*next));
  }
  return out;
}

/// One life of a worker, its path and the server's end of it.
struct player {
  struct asked {
    transfer_id request;
    answer_ptr<release_header, payload> answer;
    push_header push;
    bool is_push = false;
  };

  worker_id who;
  life_number life;
  path_ptr near;
  path_ptr far;
  std::unique_ptr<wire> up, down; ///< The frames that each end sends.
  std::deque<frame> handed;       ///< The inbox of the server's end, ...
  std::deque<frame> heard;        ///< ... and of the worker's.
  std::deque<asked> open;         ///< Requests at the server.
  std::deque<lease> leases;
  version reads;
  sequence last{0}, requests{0};
  transfer_id transfers{0};
  bool computes = false;
  bool frozen = false;
  bool bad = false;  ///< All of its gradients are bad.
  bool dead = false; ///< Its path is closed.
  bool lost = false; ///< It was told that it is no member.
  bool expelled = false;
};

/// The faults of a worker.
enum class fault { none, killed, silent, frozen, path, newcomer };

class history {
public:
  history(uint64_t seed, uint32_t workers) : random_(seed) {
    fake::reset(seed);
    collective_terms terms;
    terms.library = fake::library();
    terms.weights = shape;
    terms.limits = {.5, .5, .2};
    terms.transfer = .5;
    terms.settling = .01;
    terms.waiting = 3;
    terms.rules.pause = .01;
    terms.rules.failures = 1000;
    terms.clock = [this] {
      return now_;
    };
    root_ = std::make_shared<collective_coordinator>(std::move(terms));
    open_server(workers);
    std::vector<worker_id> all;
    for (uint32_t i = 0; i < workers; ++i) {
      enlist(worker_id{i});
      all.push_back(worker_id{i});
    }
    actors_.tell(lead_, join_atom_v, all);
  }

  ~history() {
    for (auto& one : players_)
      close(*one);
    for (int i = 0; i < 20000 && rests() > 0; ++i)
      now_ += .001;
    players_.clear();
    root_.reset();
  }

  /// Runs until so many steps are made; returns what went wrong.
  std::string run(uint64_t steps, uint64_t fault_at, fault incident,
                  worker_id victim) {
    std::optional<uint64_t> mended;
    for (uint64_t event = 0; made() < steps; ++event) {
      if (event == fault_at) {
        enact(incident, victim);
        mended = event + 40 + random_() % 200;
      }
      if (mended && event == *mended)
        mend();
      if (event > 60000)
        return "it stands still at step " + std::to_string(made());
      act();
      if (!trouble_.empty())
        return trouble_;
    }
    auto breach = watch_->promises.breach();
    return breach.value_or("");
  }

  void spoil(worker_id who) {
    find(who)->bad = true;
    watch_->bad = who;
  }

  const audit& seen() const { return *watch_; }

  const std::vector<member_change>& expelled() const {
    return coordinator_->left;
  }

private:
  // -- members ----------------------------------------------------------------

  void open_server(uint32_t workers) {
    parameter_server_parts parts;
    parts.settings.training.network = "tiny";
    parts.settings.training.momentum = 0;
    parts.settings.training.lr = lr;
    parts.settings.training.batch_size = 10;
    parts.settings.cluster.workers = workers;
    parts.settings.checkpoint.checkpoint_freq = 1000000;
    parts.description.run_id = "run";
    parts.description.life = 1;
    parts.data = {"none", 95, 10};
    parts.recorder = recorder_.handle;
    parts.writer = writer_.handle;
    parts.sums = root_;
    simulation::invariant_rules rules;
    rules.samples = parts.data.samples;
    rules.policy.workers = workers;
    rules.now = [] {
      return 0.;
    };
    rules.longest = rules.now;
    watch_ = std::make_shared<audit>(std::move(rules));
    parts.observer = watch_;
    lead_ = actors_.make<lead_actor, parameter_server_state>(std::move(parts));
    actors_.tell(lead_, coordinator_atom_v, coordinator_.handle);
  }

  void enlist(worker_id who) {
    auto one = std::make_unique<player>();
    one->who = who;
    one->life = lives_[who] = lives_[who].next();
    auto [near, up] = socket_pair();
    auto [far, down] = socket_pair();
    nccl_terms with{fake::library(), 1};
    with.limits = {.5, .5, .2};
    with.transfer = .5;
    one->near =
      make_path<collective_carrier>(std::move(near), path_terms{shape}, with);
    one->far =
      make_path<seat_carrier>(std::move(far), path_terms{shape}, root_);
    one->up = std::make_unique<wire>(std::move(up));
    one->down = std::make_unique<wire>(std::move(down));
    auto* raw = one.get();
    one->near->on_frame([raw](frame x) { raw->heard.push_back(std::move(x)); });
    one->far->on_frame([raw](frame x) { raw->handed.push_back(std::move(x)); });
    handles_.push_back(make_worker_stand_in(actors_));
    actors_.tell(lead_, enlist_atom_v, who, one->life, registration_request{},
                 handles_.back().handle);
    pull(*one);
    players_.push_back(std::move(one));
  }

  player* find(worker_id who) {
    for (auto& one : players_)
      if (one->who == who && one->life == lives_[who])
        return one.get();
    return nullptr;
  }

  void leave(player& who, const std::string& why) {
    actors_.tell(lead_, leave_atom_v, who.who, who.life, why);
  }

  void close(player& who) {
    who.dead = true;
    who.computes = false;
    who.near->close("closed");
    who.far->close("closed");
    who.handed.clear();
    who.heard.clear();
    who.open.clear();
  }

  void come_back(player& old) {
    if (!old.dead)
      close(old);
    leave(old, "its link broke");
    auto who = old.who;
    enlist(who);
    actors_.tell(lead_, join_atom_v, std::vector{who});
  }

  // -- faults -----------------------------------------------------------------

  void enact(fault incident, worker_id victim) {
    auto* who = find(victim);
    if (incident == fault::killed || incident == fault::path)
      close(*who);
    if (incident == fault::silent || incident == fault::frozen)
      leave(*who, "silent");
    if (incident == fault::frozen)
      who->frozen = true;
    if (incident == fault::newcomer) {
      worker_id last{static_cast<uint32_t>(lives_.size())};
      enlist(last);
      actors_.tell(lead_, join_atom_v, std::vector{last});
    }
    fault_ = incident;
    victim_ = victim;
  }

  void mend() {
    auto* who = find(victim_);
    if (fault_ == fault::killed) {
      leave(*who, "connection lost");
      come_back(*who);
    } else if (fault_ == fault::path) {
      come_back(*who);
    } else if (fault_ == fault::frozen) {
      who->frozen = false;
    }
  }

  // -- events -----------------------------------------------------------------

  void act() {
    std::vector<std::function<void()>> all;
    for (size_t i = 0; i < players_.size(); ++i)
      collect(*players_[i], all);
    // Polling happens at random, too.
    if (all.empty() || random_() % 3 == 0)
      return poll();
    all[random_() % all.size()]();
    actors_.run();
    stop_workers();
  }

  void collect(player& who, std::vector<std::function<void()>>& all) {
    if (who.dead)
      return;
    who.up->look();
    who.down->look();
    if (!who.up->frames.empty())
      all.push_back([&] { bring_up(who); });
    if (!who.handed.empty())
      all.push_back([&] { ask(who, take_first(who.handed)); });
    if (!who.open.empty() && !who.open.front().answer->open())
      all.push_back([&] { answer(who); });
    for (auto& one : who.open)
      if (&one != &who.open.front() && !one.answer->open()) {
        all.push_back([&] { answer(who); });
        break;
      }
    if (who.frozen)
      return;
    if (!who.down->frames.empty())
      all.push_back([&] { bring_down(who); });
    if (!who.heard.empty())
      all.push_back([&] { handle_answer(who, take_first(who.heard)); });
    if (who.computes)
      all.push_back([&] { push(who); });
    if (who.lost)
      all.push_back([&] { return_of(who); });
  }

  template <class T>
  static T take_first(std::deque<T>& from) {
    auto out = std::move(from.front());
    from.pop_front();
    return out;
  }

  void poll() {
    now_ += .0005;
    rests();
    actors_.run();
  }

  /// The number of path ends that still have work.
  size_t rests() {
    size_t busy = 0;
    for (auto& one : players_) {
      if (!one->frozen || one->dead)
        busy += one->near->poll(now_).has_value();
      busy += one->far->poll(now_).has_value();
    }
    return busy;
  }

  void bring_up(player& who) {
    who.down->put(take_first(who.up->frames));
    for (auto& next : read_all(*who.far))
      who.handed.push_back(std::move(next));
  }

  void bring_down(player& who) {
    who.up->put(take_first(who.down->frames));
    for (auto& next : read_all(*who.near))
      who.heard.push_back(std::move(next));
  }

  /// As a gateway does.
  void ask(player& who, frame message) {
    player::asked one;
    one.request = message.request;
    if (message.kind == frame_kind::push) {
      one.is_push = true;
      one.push = read_header<push_header>(message.header);
      one.answer = actors_.ask<release_header, payload>(
        lead_, push_atom_v, one.push, message.tensor);
    } else {
      one.answer = actors_.ask<release_header, payload>(
        lead_, pull_atom_v, read_header<pull_header>(message.header));
    }
    who.open.push_back(std::move(one));
    actors_.run();
  }

  void answer(player& who) {
    auto found = std::ranges::find_if(
      who.open, [](const auto& one) { return !one.answer->open(); });
    auto one = std::move(*found);
    who.open.erase(found);
    if (one.answer->error) {
      if (one.is_push)
        watch_->promises.turned_away(one.push, *one.answer->error);
      refusal no{errc::failed, caf::to_string(*one.answer->error)};
      if (one.answer->code() != errc::none)
        no.code = one.answer->code();
      who.far->send({frame_kind::refusal, one.request, write_header(no), {}});
      return;
    }
    who.far->send({frame_kind::release, one.request,
                   write_header(one.answer->get<release_header>()),
                   one.answer->get<payload>()});
  }

  // -- what a worker does -----------------------------------------------------

  void pull(player& who) {
    who.requests = who.requests.next();
    who.transfers = who.transfers.next();
    who.near->send({frame_kind::pull,
                    who.transfers,
                    write_header(pull_header{who.who, who.life, life_number{1},
                                             lease_id{0}, who.requests}),
                    {}});
  }

  void push(player& who) {
    who.computes = false;
    auto from = take_first(who.leases);
    who.last = who.last.next();
    who.requests = who.requests.next();
    who.transfers = who.transfers.next();
    push_header header;
    header.id = {who.who, who.life, who.last};
    header.server = life_number{1};
    header.computed_on = who.reads;
    header.from = from.id;
    header.samples = from.count;
    header.loss = 1;
    header.request = who.requests;
    watch_->promises.pushed(header);
    who.near->send({frame_kind::push, who.transfers, write_header(header),
                    gradient_of(from.id, who.bad)});
  }

  void handle_answer(player& who, frame message) {
    if (message.kind == frame_kind::refusal)
      return handle_answer(who, read_header<refusal>(message.header));
    auto header = read_header<release_header>(message.header);
    if (!watch_->knows(header.weights, message.tensor))
      trouble_ = "version " + to_string(header.weights) +
                 " is not what its gradients make";
    who.reads = header.weights;
    who.leases.insert(who.leases.end(), header.leases.begin(),
                      header.leases.end());
    who.computes = true;
    if (who.leases.empty())
      trouble_ = "there is nothing to compute";
  }

  void handle_answer(player& who, const refusal& no) {
    switch (no.code) {
    case errc::not_finite:
      return pull(who);
    case errc::unknown_member:
    case errc::stale_incarnation:
      who.lost = true;
      return;
    default:
      trouble_ = "worker " + to_string(who.who) + " is told: " + no.text;
    }
  }

  void return_of(player& who) {
    who.lost = false;
    if (!who.expelled)
      come_back(who);
  }

  /// As the coordinator does.
  void stop_workers() {
    for (; stopped_ < coordinator_->left.size(); ++stopped_) {
      const auto& out = coordinator_->left[stopped_];
      for (auto& one : players_)
        if (one->who == out.worker && one->life == out.life) {
          one->expelled = true;
          leave(*one, out.reason);
        }
    }
  }

  uint64_t made() const {
    return watch_->versions.empty() ? 0
                                    : watch_->versions.rbegin()->first.value;
  }

  std::mt19937_64 random_;
  double now_ = 0;
  collective_coordinator_ptr root_;
  actor_fixture actors_;
  recorder_stand_in recorder_ = make_recorder_stand_in(actors_);
  writer_stand_in writer_ = make_writer_stand_in(actors_);
  coordinator_stand_in coordinator_ = make_coordinator_stand_in(actors_);
  std::vector<worker_stand_in> handles_;
  std::shared_ptr<audit> watch_;
  lead_actor lead_;
  std::vector<std::unique_ptr<player>> players_;
  std::map<worker_id, life_number> lives_;
  fault fault_ = fault::none;
  worker_id victim_;
  size_t stopped_ = 0;
  std::string trouble_;
};

} // namespace troupe::test
