// The invariant checker reports each broken promise, and nothing else.

#include "apps/lab/simulation/invariant_checker.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using simulation::invariant_checker;

namespace {

constexpr worker_id zero{0};
constexpr worker_id one{1};
constexpr worker_id two{2};
constexpr life_number first{1};

/// A cluster of two whose server the test plays.
struct played_run {
  explicit played_run(const char* policy = "async",
                      const std::vector<uint64_t>& parts = {},
                      std::optional<double> norm_factor = {})
    : watch({policies::read_spec(policy, 2), 16, 2, 3, 0,
             [this] { return now; }, [] { return 1.0; }, parts, norm_factor}) {
    watch.began(first, nullptr);
    for (auto who : {zero, one})
      watch.enlisted(who, first);
    watch.entered(std::vector{zero, one});
  }

  void join(worker_id who, life_number life) {
    watch.enlisted(who, life);
    watch.entered(std::vector{who});
  }

  /// The worker gets the newest weights and four samples.
  void release(worker_id who, uint64_t from, uint64_t epoch = 0,
               uint32_t part = 0) {
    next_lease = next_lease.next();
    watch.released(who, {made, server, {{next_lease, epoch, from, 4, part}}});
    reads[who] = made;
    leases[who] = next_lease;
  }

  push_header push(worker_id who) {
    push_header out;
    seq = seq.next();
    out.id = {who, first, seq};
    out.server = server;
    out.computed_on = reads[who];
    out.from = leases[who];
    out.samples = 4;
    watch.pushed(out);
    return out;
  }

  void apply(const push_header& header) {
    watch.accepted(header);
    made = made.next();
    watch.applied(made, std::vector{header});
  }

  /// The name of the broken promise; "" for none.
  std::string broken() {
    auto line = watch.breach().value_or("");
    auto begin = line.find("s: ");
    if (begin == line.npos)
      return line;
    auto rest = line.substr(begin + 3);
    return rest.substr(0, rest.find(':'));
  }

  double now = 0;
  version made;
  life_number server = first;
  lease_id next_lease{0};
  sequence seq{0};
  std::map<worker_id, version> reads;
  std::map<worker_id, lease_id> leases;
  invariant_checker watch;
};

proto::Manifest manifest(uint64_t step, uint64_t settled) {
  proto::Manifest out;
  out.set_step(step);
  out.mutable_ledger()->set_epochs_opened(1);
  auto* open = out.mutable_ledger()->add_open_epochs();
  auto* range = open->add_unsettled();
  range->set_first(settled);
  range->set_count(16 - settled);
  return out;
}

} // namespace

TEST_CASE("a run that keeps its promises is left alone") {
  played_run run;
  run.release(zero, 0);
  run.release(one, 4);
  auto push = run.push(zero);
  run.apply(push);
  run.release(zero, 8);
  run.watch.acknowledged(push, {run.made, first, {}});
  run.apply(run.push(one));
  run.watch.saved(run.made);
  run.watch.finish(manifest(2, 8), 8);
  CHECK(run.broken().empty());
  CHECK(run.watch.counts().updates == 2);
}

TEST_CASE("a gradient that counts twice is seen") {
  played_run run;
  run.release(zero, 0);
  auto push = run.push(zero);
  run.apply(push);
  run.watch.accepted(push);
  CHECK(run.broken() == "once");
}

TEST_CASE("a gradient that nobody sent is seen") {
  played_run run;
  run.release(zero, 0);
  auto push = run.push(zero);
  push.id.seq = sequence{99};
  run.watch.accepted(push);
  CHECK(run.broken() == "once");
}

TEST_CASE("an acknowledged gradient that is not in the weights is seen") {
  played_run run;
  run.release(zero, 0);
  auto push = run.push(zero);
  run.watch.accepted(push);
  run.watch.acknowledged(push, {run.made, first, {}});
  CHECK(run.broken() == "kept");
}

TEST_CASE("a restart behind the newest durable checkpoint is seen") {
  played_run run;
  run.release(zero, 0);
  run.apply(run.push(zero));
  run.watch.saved(run.made);
  run.watch.began(life_number{2}, nullptr);
  CHECK(run.broken() == "kept");
}

TEST_CASE("a late gradient that is applied under sync is seen") {
  played_run run{"sync"};
  run.release(zero, 0);
  run.release(one, 4);
  run.apply(run.push(zero));
  CHECK(run.broken().empty());
  run.apply(run.push(one));
  CHECK(run.broken() == "staleness");
}

TEST_CASE("a worker that goes ahead too far under ssp is seen") {
  played_run run{"ssp(staleness=1)"};
  run.release(one, 12);
  run.release(zero, 0);
  run.apply(run.push(zero));
  run.release(zero, 4);
  CHECK(run.broken().empty());
  run.apply(run.push(zero));
  run.release(zero, 8);
  CHECK(run.broken() == "staleness");
}

TEST_CASE("a version that is left out is seen") {
  played_run run;
  run.release(zero, 0);
  run.made = run.made.next();
  run.apply(run.push(zero));
  CHECK(run.broken() == "versions");
}

TEST_CASE("samples that two workers have, or that come again, are seen") {
  played_run both;
  both.release(zero, 0);
  both.release(one, 2);
  CHECK(both.broken() == "samples");
  played_run again;
  again.release(zero, 0);
  again.apply(again.push(zero));
  again.release(zero, 0);
  CHECK(again.broken() == "samples");
}

TEST_CASE("a checkpoint whose ledger is wrong is seen") {
  played_run run;
  run.release(zero, 0);
  run.apply(run.push(zero));
  run.watch.saved(run.made);
  run.watch.finish(manifest(1, 8), 4);
  CHECK(run.broken() == "samples");
}

TEST_CASE("samples that were given back and lie about are seen") {
  played_run run;
  run.release(zero, 0);
  run.release(one, 4);
  run.apply(run.push(one));
  run.watch.left(zero, first);
  for (uint64_t from : {8, 12}) {
    run.release(one, from);
    run.apply(run.push(one));
  }
  run.now = 100;
  run.release(one, 0, 1);
  run.apply(run.push(one));
  proto::Manifest last;
  last.set_step(4);
  last.mutable_ledger()->set_epochs_opened(2);
  for (auto [number, begin, count] : {std::tuple{0, 0, 4}, {1, 4, 12}}) {
    auto* open = last.mutable_ledger()->add_open_epochs();
    open->set_number(static_cast<uint64_t>(number));
    auto* range = open->add_unsettled();
    range->set_first(static_cast<uint64_t>(begin));
    range->set_count(static_cast<uint64_t>(count));
  }
  run.watch.finish(last, 16);
  CHECK(run.broken() == "samples");
}

namespace {

/// Part 0 has finished one epoch. In part 1 the samples from `settled` on are
/// open, and `left_out` of its samples count as left out.
proto::Manifest manifest_of_parts(uint64_t step, uint64_t settled,
                                  uint64_t left_out, uint64_t completed) {
  proto::Manifest out;
  out.set_step(step);
  auto& ledger = *out.mutable_ledger();
  ledger.set_epochs_completed(completed);
  for (uint32_t rank : {0, 1}) {
    auto* part = ledger.add_parts();
    part->set_part(rank);
    part->set_samples(8);
    part->set_epochs_opened(1);
  }
  ledger.mutable_parts(1)->set_left_out(left_out);
  if (settled + left_out < 8) {
    auto* range = ledger.mutable_parts(1)->add_open_epochs()->add_unsettled();
    range->set_first(settled);
    range->set_count(8 - settled);
  }
  return out;
}

/// Three leases, one of them of part 1.
void play_parts(played_run& run) {
  run.release(zero, 0);
  run.apply(run.push(zero));
  run.release(one, 0, 0, 1);
  run.apply(run.push(one));
  run.release(zero, 4);
  run.apply(run.push(zero));
}

} // namespace

TEST_CASE("samples of another's part are seen") {
  played_run run{"async", {8, 8}};
  run.release(one, 0, 0, 1);
  CHECK(run.broken().empty());
  run.release(zero, 4, 0, 1);
  CHECK(run.broken() == "samples");
}

TEST_CASE("samples that a rank has lost while it was there are seen") {
  played_run good{"async", {8, 8}};
  play_parts(good);
  good.watch.finish(manifest_of_parts(3, 4, 0, 0), 12);
  CHECK(good.broken().empty());
  played_run lost{"async", {8, 8}};
  play_parts(lost);
  lost.watch.finish(manifest_of_parts(3, 4, 4, 1), 12);
  CHECK(lost.broken() == "samples");
  played_run again{"async", {8, 8}};
  play_parts(again);
  again.watch.finish(manifest_of_parts(3, 0, 0, 0), 12);
  CHECK(again.broken() == "samples");
}

TEST_CASE("what is left out while a rank is gone is counted") {
  played_run good{"async", {8, 8}};
  play_parts(good);
  good.watch.left(one, first);
  good.watch.finish(manifest_of_parts(3, 4, 4, 1), 12);
  CHECK(good.broken().empty());
  played_run miscounted{"async", {8, 8}};
  play_parts(miscounted);
  miscounted.watch.left(one, first);
  auto wrong = manifest_of_parts(3, 4, 4, 1);
  wrong.mutable_ledger()->mutable_parts(1)->set_left_out(3);
  miscounted.watch.finish(wrong, 12);
  CHECK(miscounted.broken() == "samples");
}

TEST_CASE("what comes from earlier lives is seen") {
  played_run stale;
  stale.release(zero, 0);
  auto push = stale.push(zero);
  stale.watch.left(zero, first);
  stale.join(zero, life_number{2});
  stale.watch.accepted(push);
  CHECK(stale.broken() == "lives");
  played_run same;
  same.watch.left(zero, first);
  same.join(zero, first);
  CHECK(same.broken() == "lives");
  played_run server;
  server.release(zero, 0);
  auto early = server.push(zero);
  server.watch.began(life_number{2}, nullptr);
  server.join(zero, first);
  server.watch.accepted(early);
  CHECK(server.broken() == "lives");
}

TEST_CASE("a sound gradient that is refused is seen") {
  played_run run;
  run.release(zero, 0);
  run.watch.refused(run.push(zero));
  CHECK(run.broken() == "sound");
}

TEST_CASE("a judgement of a norm that others do not bear out is seen") {
  // What is broken when worker 0 pushes, and norms 1 and 3 of others are known.
  auto found = [](std::optional<double> factor, cores::judged_norm norm,
                  errc refused) {
    played_run run{"async", {}, factor};
    run.join(two, first);
    inputs::arrived push;
    push.header.samples = 4;
    for (auto who : {one, two}) {
      push.header.id = {who, first, sequence{1}};
      if (factor) {
        push.norm = {who == one ? 1.0 : 3.0};
        run.watch.judged(push);
      }
    }
    run.release(zero, 0);
    push.header = run.push(zero);
    push.refused = refused;
    push.norm = norm;
    event at;
    at.what = push;
    run.watch.on_event(at);
    return run.broken();
  };
  CHECK(found(10, {20, 2.0, false}, errc::none).empty());
  CHECK(found(10, {20.1, 2.0, true}, errc::outlier).empty());
  CHECK(found(10, {20.1, 2.0, false}, errc::none) == "sound");
  CHECK(found(10, {20, 2.0, true}, errc::outlier) == "sound");
  CHECK(found(10, {20, 1.0, true}, errc::outlier) == "sound");
  CHECK(found({}, {20, 2.0, false}, errc::none) == "sound");
}

TEST_CASE("a cluster that stands still is seen, but not while a fault lasts") {
  played_run run;
  run.release(zero, 0);
  run.apply(run.push(zero));
  run.watch.enacted({0, config::fault_kind::cut, 0, 100, 0}, 100);
  run.now = 100;
  CHECK(run.broken().empty());
  run.now = 121;
  CHECK(run.broken().empty());
  run.now = 123;
  CHECK(run.broken() == "progress");
}

TEST_CASE("a cluster in which everybody waits is seen") {
  played_run run{"sync"};
  run.release(zero, 0);
  run.release(one, 4);
  run.watch.accepted(run.push(zero));
  CHECK(run.broken().empty());
  run.watch.left(one, first);
  CHECK(run.broken().empty());
  run.now = 1;
  CHECK(run.broken() == "progress");
}

TEST_CASE("a worker that lives and does not come back is seen") {
  played_run run;
  run.watch.process(zero, true);
  run.watch.left(zero, first);
  run.release(one, 0);
  run.now = 50;
  run.apply(run.push(one));
  run.watch.finish(manifest(1, 4), 4);
  CHECK(run.broken() == "progress");
}
