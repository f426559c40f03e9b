// Networks in segments: the chain beside a worker, stages, and the remote
// module before a server, here a double.

#include "actors/links/module_frames.hpp"
#include "actors/modules/activations.hpp"
#include "actors/modules/chain.hpp"
#include "actors/modules/remote_module.hpp"
#include "actors/modules/stage.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "config/text/failure.hpp"
#include "data/dataset.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/payloads.hpp"

#include <ATen/ATen.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <limits>
#include <map>

using namespace troupe;
using namespace troupe::test;
using Catch::Approx;

namespace {

constexpr int64_t classes = 10;
constexpr uint64_t samples = 12;

/// Counts the blocks that are taken and not given back.
struct counted_memory final : payload_memory {
  memory_block take(size_t bytes) override {
    ++taken;
    return heap_memory()->take(bytes);
  }

  uint64_t taken = 0;
};

/// A stage that counts the micro-batches between forward and backward.
struct alive_count {
  uint64_t now = 0, most = 0;
};

/// One worker's chain, and the remote module that it reaches, if any.
struct site {
  explicit site(const std::string& placement, uint64_t micro_batch_size = 1000,
                config::pipeline_order order = config::pipeline_order::gpipe) {
    parts.settings.training.placement = placement;
    parts.settings.parallel.mode = config::parallel_mode::remote_forward;
    plan = models::make_segment_plan(parts.settings, classes, {1, 28, 28});
    models::compute_engine whole{parts.settings.training, classes};
    flat = at::empty({static_cast<int64_t>(whole.layout().count())});
    whole.initial_weights(flat, 3);
    server = make_server_stand_in(actors);
    make_module();
    make_chain(micro_batch_size, order);
  }

  void make_module() {
    remote_module_parts out;
    out.server = server.handle;
    for (const auto& segment : plan.segments)
      out.segments.push_back(segment.server ? stage_of({segment.parts, {}})
                                            : stage_actor{});
    out.range = {0, plan.parameters + plan.all_statistics};
    out.own = plan.own().count;
    out.memory = memory;
    out.most_samples = samples;
    out.roster = roster;
    module =
      actors.make<module_host_actor, remote_module_state>(std::move(out));
  }

  void make_chain(uint64_t micro_batch_size, config::pipeline_order order) {
    chain_parts out;
    for (size_t k = 0; k < plan.segments.size(); ++k)
      out.segments.push_back(
        {plan.segments[k].server
           ? stage_actor{}
           : counted(stage_of({plan.segments[k].parts, plan.own()}), k),
         plan.statistics[k]});
    out.parameters = plan.own_parameters;
    out.statistics = plan.all_statistics;
    out.training = parts.settings.training;
    out.micro_batch_size = micro_batch_size;
    out.schedule = order;
    chain = actors.make<compute_actor, chain_state>(std::move(out));
  }

  stage_actor stage_of(const stage_place& where) {
    return actors.make<stage_actor, stage_state>(parts, classes, where);
  }

  stage_actor counted(const stage_actor& stage, size_t segment) {
    auto& count = alive[segment];
    return actors.stand_in<stage_actor>([stage, &count](auto* self) {
      return stage_actor::behavior_type{
        [=, &count](forward_atom what, const module_call& call) {
          count.most = std::max(count.most, ++count.now);
          return self->delegate(stage, what, call);
        },
        [=, &count](backward_atom what, const module_call& call) {
          --count.now;
          return self->delegate(stage, what, call);
        },
        [=](cancel_atom what, lease_id which) {
          self->send(stage, what, which);
        },
        [=](begin_atom what, const stage_context_ptr& context) {
          self->send(stage, what, context);
        },
      };
    });
  }

  /// Asks for weights; the server gives this version of them.
  payload pull(version what, lease_id abandoned = lease_id{0}) {
    pull_header header;
    header.abandoned = abandoned;
    auto answer =
      actors.ask<release_header, payload>(module, pull_atom_v, header);
    actors.run();
    release_header release;
    release.weights = what;
    server->pulls.back().promise.deliver(release, to_payload(flat));
    actors.run();
    return answer->get<payload>();
  }

  compute_task task(const payload& weights, uint64_t lease = 1,
                    version what = version{0}) {
    auto batch = std::make_shared<data::batch>();
    at::manual_seed(static_cast<uint64_t>(lease));
    batch->inputs = at::randn({static_cast<int64_t>(samples), 1, 28, 28});
    batch->targets =
      at::randint(classes, {static_cast<int64_t>(samples)}, at::kLong);
    compute_task out;
    out.from = {lease_id{lease}, 0, 0, samples};
    out.batch = batch;
    out.weights = weights;
    out.computed_on = what;
    out.cancel = std::make_shared<std::atomic<bool>>(false);
    out.link = caf::actor_cast<caf::strong_actor_ptr>(module);
    return out;
  }

  gradient_report compute(const compute_task& what) {
    auto answer = actors.ask<gradient_report>(chain, compute_atom_v, what);
    actors.run();
    return answer->get<gradient_report>();
  }

  /// Pushes; gives what the server got.
  payload push(const compute_task& what, const payload& own) {
    push_header header;
    header.from = what.from.id;
    header.computed_on = what.computed_on;
    pushed =
      actors.ask<release_header, payload>(module, push_atom_v, header, own);
    actors.run();
    return server->pushes.back().gradient;
  }

  at::Tensor expected(const compute_task& what) {
    models::compute_engine whole{parts.settings.training, classes};
    auto out = at::empty_like(flat);
    whole.run(flat, what.batch->inputs, what.batch->targets, out, nullptr,
              {what.from});
    return out;
  }

  module_call call(uint64_t lease, uint32_t segment = 0) {
    auto what = task({}, lease);
    module_call out;
    out.from = what.from;
    out.segment = segment;
    out.inputs = to_activations(what.batch->inputs);
    return out;
  }

  answer_ptr<module_answer> forward(const module_call& what) {
    auto out = actors.ask<module_answer>(module, forward_atom_v, what);
    actors.run();
    return out;
  }

  actor_fixture actors;
  computing_parts parts;
  models::segment_plan plan;
  at::Tensor flat;
  std::shared_ptr<counted_memory> memory = std::make_shared<counted_memory>();
  module_roster_ptr roster = std::make_shared<module_roster>();
  server_stand_in server;
  module_host_actor module;
  compute_actor chain;
  answer_ptr<release_header, payload> pushed;
  std::map<size_t, alive_count> alive;
};

const std::string all_remote;
const std::string both = "conv*=ps:0,*=worker";

} // namespace

TEST_CASE("a push gets the gradient of its context") {
  for (const auto& placement :
       {all_remote, both, std::string{"conv1=worker,conv2=ps:0,*=worker"}}) {
    INFO(placement);
    site it{placement};
    auto weights = it.pull(version{0});
    CHECK(weights.shape().count == it.plan.own_parameters);
    auto task = it.task(weights);
    auto found = it.compute(task);
    CHECK(found.samples == samples);
    CHECK(it.roster->contexts() == 1);
    auto whole = it.push(task, found.gradient);
    CHECK(it.roster->contexts() == 0);
    CHECK(at::equal(to_tensor(whole), it.expected(task)));
  }
}

TEST_CASE("a version stays while its context is open, and no longer") {
  site it{all_remote};
  auto weights = it.pull(version{0});
  auto before = it.flat.use_count();
  auto task = it.task(weights);
  weights = {};
  task.weights = {};
  auto found = it.compute(task);
  CHECK(it.flat.use_count() >= before - 1);
  it.push(task, found.gradient);
  CHECK(it.flat.use_count() == 1);
}

TEST_CASE("contexts go with a cancellation, the next pull and the worker") {
  site it{all_remote};
  it.pull(version{0});
  auto open = [&](uint64_t lease) {
    return it.forward(it.call(lease))->error.has_value();
  };
  CHECK_FALSE(open(1));
  CHECK(it.roster->contexts() == 1);
  it.actors.tell(it.module, cancel_atom_v, lease_id{1});
  CHECK(it.roster->contexts() == 0);
  CHECK_FALSE(open(2));
  it.pull(version{0}, lease_id{2});
  CHECK(it.roster->contexts() == 0);
  CHECK_FALSE(open(3));
  CHECK_FALSE(open(4));
  CHECK(open(5)); // One too many.
  CHECK(it.roster->contexts() == 2);
  it.actors.kill(it.module);
  CHECK(it.roster->contexts() == 0);
}

TEST_CASE("a module ends with its server, and its contexts with it") {
  site it{all_remote};
  it.pull(version{0});
  it.forward(it.call(1));
  CHECK(it.roster->contexts() == 1);
  it.actors.kill(it.server.handle);
  CHECK_FALSE(it.actors.alive(it.module));
  CHECK(it.roster->contexts() == 0);
}

TEST_CASE("the end of the run closes contexts") {
  site it{all_remote};
  it.pull(version{0});
  it.forward(it.call(1));
  auto next = it.actors.ask<release_header, payload>(it.module, pull_atom_v,
                                                     pull_header{});
  it.actors.run();
  it.server->pulls.back().promise.deliver(
    caf::make_error(errc::shutting_down, std::string{"the run is over"}));
  it.actors.run();
  CHECK(next->code() == errc::shutting_down);
  CHECK(it.roster->contexts() == 0);
}

TEST_CASE("abandoned contexts leave no memory") {
  site it{all_remote};
  it.pull(version{0});
  for (uint64_t lease = 1; lease <= 200; ++lease) {
    REQUIRE_FALSE(it.forward(it.call(lease))->error);
    it.actors.tell(it.module, cancel_atom_v, lease_id{lease});
  }
  CHECK(it.roster->contexts() == 0);
  CHECK(it.memory->taken <= remote_module_state::most_contexts);
}

TEST_CASE("what does not fit a context is refused") {
  site it{both};
  CHECK(it.forward(it.call(1))->code() == errc::protocol_violation); // No pull.
  it.pull(version{7});
  CHECK(it.forward(it.call(1))->code() == errc::protocol_violation);
  auto call = it.call(1);
  call.weights = version{7};
  call.segment = 1; // The worker's own.
  CHECK(it.forward(call)->code() == errc::protocol_violation);
  call.segment = 9;
  CHECK(it.forward(call)->code() == errc::protocol_violation);
  CHECK(it.roster->contexts() == 0);
  call.segment = 0;
  CHECK_FALSE(it.forward(call)->error);
  CHECK(it.forward(call)->code() == errc::protocol_violation); // Again.
}

TEST_CASE("activations of a wrong shape are refused with one line") {
  site it{all_remote};
  it.pull(version{0});
  auto call = it.call(1);
  call.inputs.sizes = {static_cast<int64_t>(samples), 2, 28, 14};
  auto found = it.forward(call);
  CHECK(found->code() == errc::failed);
  CHECK(caf::to_string(*found->error).find('\n') == std::string::npos);
  call = it.call(2);
  call.inputs.sizes = {1, 1, 28, 28};
  CHECK(it.forward(call)->code() == errc::failed);
  call = it.call(3);
  call.inputs.sizes = {-1, std::numeric_limits<int64_t>::max()};
  CHECK(it.forward(call)->code() != errc::none);
}

TEST_CASE("a worker has no more samples in hand than its lease has") {
  site it{all_remote};
  it.pull(version{0});
  auto call = it.call(1);
  call.from.count = samples + 1;
  CHECK(it.forward(call)->code() == errc::protocol_violation);
  call.from.count = samples;
  CHECK_FALSE(it.forward(call)->error);
  call.first = 1; // Again as many.
  CHECK(it.forward(call)->code() == errc::failed);
}

TEST_CASE("a push on another version than its context's is no such push") {
  site it{all_remote};
  auto weights = it.pull(version{4});
  auto task = it.task(weights, 1, version{4});
  auto found = it.compute(task);
  task.computed_on = version{5};
  CHECK(it.push(task, found.gradient).shape() == found.gradient.shape());
}

TEST_CASE("a push without a complete context goes on as it came") {
  site it{all_remote};
  auto weights = it.pull(version{0});
  auto task = it.task(weights, 1);
  CHECK(it.push(task, weights).shape() == weights.shape());
  it.forward(it.call(1)); // No backward.
  CHECK(it.push(task, weights).shape() == weights.shape());
  CHECK(it.roster->contexts() == 0);
}

TEST_CASE("a cancelled chain closes its contexts and goes on") {
  site it{both};
  auto weights = it.pull(version{0});
  auto task = it.task(weights);
  auto given_up =
    it.actors.ask<gradient_report>(it.chain, compute_atom_v, task);
  it.actors.ask<>(it.chain, cancel_atom_v); // Right after it.
  it.actors.run();
  CHECK(given_up->get<gradient_report>().cancelled);
  CHECK(it.roster->contexts() == 0);
  auto next = it.task(weights, 2);
  auto found = it.compute(next);
  CHECK_FALSE(found.cancelled);
  CHECK(at::equal(to_tensor(it.push(next, found.gradient)), it.expected(next)));
}

TEST_CASE("a lost link cancels, an impossible computation fails") {
  site it{all_remote};
  auto weights = it.pull(version{0});
  auto task = it.task(weights, 1, version{5}); // Not the version that it has.
  auto refused = it.actors.ask<gradient_report>(it.chain, compute_atom_v, task);
  it.actors.run();
  CHECK(refused->code() == errc::protocol_violation);
  it.actors.kill(it.module);
  CHECK(it.compute(it.task(weights, 2)).cancelled);
}

TEST_CASE("1F1B keeps at most as many micro-batches alive as stages follow") {
  for (auto order : {config::pipeline_order::gpipe,
                     config::pipeline_order::one_forward_one_backward}) {
    site it{"conv1=worker:cpu,conv2=worker,*=worker", 2, order};
    // Rules with one owner make one segment; a pipeline cuts at each line.
    it.plan.segments = {{{0, 1}, {}}, {{1, 2}, {}}, {{2, 99}, {}}};
    it.plan.statistics.resize(3);
    it.make_chain(2, order);
    auto task = it.task(to_payload(it.flat));
    auto found = it.compute(task);
    CHECK_FALSE(found.cancelled);
    for (size_t k = 0; k < 3; ++k) {
      CHECK(it.alive[k].now == 0);
      CHECK(it.alive[k].most ==
            (order == config::pipeline_order::gpipe ? samples / 2 : 3 - k));
    }
  }
}

TEST_CASE("calls and answers keep all that they have as frames") {
  for (uint64_t numbers : {0, 5})
    for (uint64_t statistics : {0, 3}) {
      module_call call;
      call.from = {lease_id{1}, 2, 3, 4, 5};
      call.weights = version{6};
      call.segment = 7;
      call.first = 8;
      call.last = false;
      if (numbers > 0)
        call.inputs = {constant_payload(numbers, 1), {1, 5}, true};
      if (statistics > 0)
        call.statistics = constant_payload(statistics, 2);
      auto [header, tensor] = to_frame(call);
      CHECK(tensor.shape().count == numbers + statistics);
      auto back = to_call(header, tensor);
      CHECK(back.from == call.from);
      CHECK(back.weights == call.weights);
      CHECK(back.segment == 7);
      CHECK(back.first == 8);
      CHECK_FALSE(back.last);
      CHECK(back.inputs.sizes == call.inputs.sizes);
      CHECK(back.inputs.channels_last == call.inputs.channels_last);
      CHECK(same_bytes(back.inputs.numbers, call.inputs.numbers));
      CHECK(same_bytes(back.statistics, call.statistics));
      module_answer answer{true, call.inputs, call.statistics, 0.5};
      auto [outcome, what] = to_frame(answer);
      auto there = to_answer(outcome, what);
      CHECK(there.cancelled);
      CHECK(there.seconds == 0.5);
      CHECK(same_bytes(there.outputs.numbers, answer.outputs.numbers));
      CHECK(same_bytes(there.statistics, answer.statistics));
      header.parts.statistics = numbers + statistics + 1;
      CHECK_THROWS_AS(to_call(header, tensor), transport::path_error);
    }
}

TEST_CASE("activations keep the numbers, and the memory where they can") {
  auto x = at::randn({2, 3, 4, 5});
  for (const auto& one : {x, x.contiguous(at::MemoryFormat::ChannelsLast),
                          at::randn({7}), at::randn({4, 6}).t()}) {
    auto there = to_activations(one);
    auto back = to_tensor(there);
    CHECK(at::equal(back, one));
    if (one.is_non_overlapping_and_dense() && one.dim() != 2) {
      CHECK(back.const_data_ptr() == one.const_data_ptr());
      CHECK(back.strides() == one.strides());
    }
  }
  CHECK_FALSE(to_tensor(to_activations({})).defined());
  auto wrong = to_activations(x);
  wrong.sizes = {2, 3, 4};
  CHECK_THROWS_AS(to_tensor(wrong), run_error);
}
