// A training loop of the program's own: what it computes, what it may ask for,
// and how it ends. Its thread waits for answers, so these actors have threads,
// too.

#include "actors/own_loop/training_loop.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "config/text/failure.hpp"
#include "models/engine/loss.hpp"
#include "tests/support/module_site.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <caf/scoped_actor.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::test;
using remote::context;
using remote::distributed_optimizer;
using remote::training;

namespace {

constexpr auto patience = std::chrono::seconds(60);

/// What the loop's thread tells the test.
class diary {
public:
  void write(const std::string& line) {
    std::lock_guard guard{mutex_};
    lines_.push_back(line);
    changed_.notify_all();
  }

  /// Waits for so many lines.
  std::vector<std::string> read(size_t count) {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, patience, [&] { return lines_.size() >= count; });
    return lines_;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

/// A server that gives weights to whoever asks, and keeps what is pushed.
struct pushed_gradient {
  std::mutex mutex;
  payload gradient;
};

/// A worker's loop, the remote module that it reaches, and its server.
struct loop_site {
  struct two_threads : caf::actor_system_config {
    two_threads() { set("caf.scheduler.max-threads", 2); }
  };

  loop_site(const std::string& placement, remote::training_function train) {
    at::set_num_threads(parts.threads);
    parts.settings.training.placement = placement;
    parts.settings.parallel.mode = config::parallel_mode::remote_forward;
    plan = models::make_segment_plan(parts.settings, classes, {1, 28, 28});
    models::compute_engine whole{parts.settings.training, classes};
    flat = at::empty({static_cast<int64_t>(whole.layout().count())});
    whole.initial_weights(flat, 3);
    server = make_server();
    module = make_module();
    loop = make_loop(std::move(train));
  }

  ~loop_site() {
    self->send(loop, ended_atom_v, run_end{});
    caf::anon_send_exit(module, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(server, caf::exit_reason::user_shutdown);
  }

  loop_site(const loop_site&) = delete;
  loop_site& operator=(const loop_site&) = delete;

  parameter_server_actor make_server() {
    return system.spawn([seen = pushes, weights = to_payload(flat)](
                          parameter_server_actor::pointer)
                          -> parameter_server_actor::behavior_type {
      using answer = caf::result<release_header, payload>;
      return {
        [=](push_atom, const push_header& header,
            const payload& gradient) -> answer {
          std::lock_guard guard{seen->mutex};
          seen->gradient = gradient;
          return {release_header{header.computed_on.next(), {}, {}}, weights};
        },
        [=](pull_atom, const pull_header&) -> answer {
          return {release_header{}, weights};
        },
        [](watch_atom,
           const watch_request&) -> caf::result<watch_header, payload> {
          return caf::make_error(errc::failed);
        },
        [](score_atom, const score&) {},
      };
    });
  }

  module_host_actor make_module() {
    remote_module_parts out;
    out.server = server;
    for (const auto& segment : plan.segments)
      out.segments.push_back(segment.server ? stage_of({segment.parts, {}})
                                            : stage_actor{});
    out.range = {0, plan.parameters + plan.all_statistics};
    out.own = plan.own().count;
    out.most_samples = samples;
    out.most_elements = 1000;
    out.roster = roster;
    return spawn<module_host_actor, remote_module_state>(
      system, placement::scheduled, std::move(out));
  }

  training_loop_actor make_loop(remote::training_function train) {
    training_loop_parts out;
    out.train = std::move(train);
    out.make_chain = [this](const loss_actor& loss) {
      chain_parts chain;
      chain.loss = loss;
      chain.parameters = plan.own_parameters;
      chain.statistics = plan.all_statistics;
      for (size_t k = 0; k < plan.segments.size(); ++k)
        chain.segments.push_back(
          {plan.segments[k].server
             ? stage_actor{}
             : stage_of({plan.segments[k].parts, plan.own()}),
           0, plan.statistics[k]});
      return spawn<compute_actor, chain_state>(system, placement::scheduled,
                                               std::move(chain));
    };
    const auto& training = parts.settings.training;
    auto net = models::make_network(training.network, classes, training.dtype);
    layout = models::layout_of(*net, training);
    for (const auto& slot : layout.slots())
      out.parameters.push_back({slot.name, slot.shape, {}, slot.offset});
    out.own = plan.own();
    out.most_elements = 1000;
    return spawn<training_loop_actor, training_loop_state>(
      system, placement::scheduled, out);
  }

  stage_actor stage_of(const stage_place& where) {
    return spawn<stage_actor, stage_state>(system, placement::detached, parts,
                                           classes, where);
  }

  /// Asks for weights, as a worker does, and gives the task that follows.
  compute_task task(uint64_t lease) {
    pull_header header;
    header.abandoned = lease_id{lease - 1};
    compute_task out;
    self->request(module, patience, pull_atom_v, header)
      .receive(
        [&](const release_header& release, const payload& weights) {
          out = task_of(lease, weights, release.weights);
        },
        [](const caf::error& why) { FAIL(caf::to_string(why)); });
    out.link = caf::actor_cast<caf::strong_actor_ptr>(module);
    return out;
  }

  /// The answer to a task: a report, or what went wrong.
  gradient_report compute(const compute_task& task) {
    gradient_report out;
    self->request(loop, patience, compute_atom_v, task)
      .receive([&](const gradient_report& report) { out = report; },
               [&](const caf::error& why) { trouble = text_of(why); });
    return out;
  }

  at::Tensor push(const compute_task& of, const gradient_report& report) {
    push_header header;
    header.from = of.from.id;
    header.computed_on = of.computed_on;
    self->request(module, patience, push_atom_v, header, report.gradient)
      .receive([](const release_header&, const payload&) {},
               [](const caf::error& why) { FAIL(caf::to_string(why)); });
    std::lock_guard guard{pushes->mutex};
    return to_tensor(pushes->gradient);
  }

  at::Tensor expected(const compute_task& task) {
    return gradient_of(parts.settings.training, flat, task);
  }

  bool ready = (init_messages(), true);
  two_threads settings;
  caf::actor_system system{settings};
  caf::scoped_actor self{system};
  computing_parts parts;
  models::segment_plan plan;
  models::flat_layout layout;
  at::Tensor flat;
  std::shared_ptr<pushed_gradient> pushes = std::make_shared<pushed_gradient>();
  module_roster_ptr roster = std::make_shared<module_roster>();
  parameter_server_actor server;
  module_host_actor module;
  training_loop_actor loop;
  std::string trouble;
};

at::Tensor mean_loss(const at::Tensor& scores, const context& batch) {
  return models::training_loss{{}}.share(scores, batch.targets(),
                                         batch.targets().numel());
}

/// The loop of the tutorial; `look` sees each context before its step.
remote::training_function
loop_with(const std::function<void(training&, context&)>& look) {
  return [look](training& run) {
    auto net = run.module();
    distributed_optimizer optimizer{net.parameters()};
    run.for_each_batch([&](context& batch) {
      auto scores = net.forward(batch, batch.inputs());
      batch.backward(mean_loss(scores, batch));
      look(run, batch);
      optimizer.step(batch);
    });
  };
}

const remote::training_function plain = loop_with([](auto&, auto&) {});

const char* const some_with_worker = "conv*=ps:0,*=worker";

} // namespace

TEST_CASE("a loop makes the gradient that its worker makes without one") {
  for (const auto* placement : {"", some_with_worker, "fc*=ps:0,*=worker"}) {
    loop_site at{placement, plain};
    for (uint64_t lease = 1; lease < 4; ++lease) {
      auto task = at.task(lease);
      auto report = at.compute(task);
      CHECK(at.trouble == "");
      CHECK(report.samples == samples);
      CHECK(report.loss > 1);
      CHECK(at.roster->contexts() == 1);
      CHECK(at.push(task, report).equal(at.expected(task)));
      CHECK(at.roster->contexts() == 0);
    }
  }
}

TEST_CASE("a loop sees the gradients and the weights of its context") {
  for (const auto* placement : {"", some_with_worker}) {
    std::map<std::string, at::Tensor> gradients, weights;
    loop_site at{placement, loop_with([&](training& run, context& batch) {
                   gradients = batch.gradients();
                   for (const auto& what : run.module().parameters())
                     weights[what.name] = batch.to_here(what);
                 })};
    auto task = at.task(1);
    auto report = at.compute(task);
    CHECK(at.trouble == "");
    auto all = at.push(task, report);
    CHECK(gradients.size() == at.layout.slots().size());
    for (const auto& slot : at.layout.slots()) {
      auto first = static_cast<int64_t>(slot.offset);
      auto count = static_cast<int64_t>(slot.count);
      CHECK(gradients[slot.name].flatten().equal(all.narrow(0, first, count)));
      CHECK(
        weights[slot.name].flatten().equal(at.flat.narrow(0, first, count)));
      CHECK(gradients[slot.name].sizes().vec() == slot.shape);
    }
  }
}

TEST_CASE("a batch that is cancelled leaves the loop's body, and the next "
          "comes") {
  auto lease = GENERATE(1, 2); // The same again, or another.
  diary of;
  std::mutex gate;
  std::unique_lock closed{gate};
  loop_site at{"", [&](training& run) {
                 auto net = run.module();
                 distributed_optimizer optimizer{net.parameters()};
                 run.for_each_batch([&](context& batch) {
                   auto scores = net.forward(batch, batch.inputs());
                   of.write("forward");
                   { std::lock_guard wait{gate}; }
                   batch.backward(mean_loss(scores, batch));
                   of.write("backward");
                   optimizer.step(batch);
                 });
               }};
  auto task = at.task(1);
  auto answer = at.self->request(at.loop, patience, compute_atom_v, task);
  of.read(1);
  task.cancel->store(true);
  at.self->send(at.loop, cancel_atom_v);
  answer.receive([](const gradient_report& report) { CHECK(report.cancelled); },
                 [](const caf::error& why) { FAIL(caf::to_string(why)); });
  auto next = at.task(static_cast<uint64_t>(lease));
  auto other = at.self->request(at.loop, patience, compute_atom_v, next);
  closed.unlock(); // What the loop still says is about the first.
  gradient_report report;
  other.receive([&](const gradient_report& found) { report = found; },
                [](const caf::error& why) { FAIL(caf::to_string(why)); });
  CHECK_FALSE(report.cancelled);
  CHECK(
    (of.read(3) == std::vector<std::string>{"forward", "forward", "backward"}));
  CHECK(at.push(next, report).equal(at.expected(next)));
  CHECK(at.roster->contexts() == 0);
}

TEST_CASE("a batch without a step is given back") {
  int batches = 0;
  loop_site at{"", [&](training& run) {
                 auto net = run.module();
                 distributed_optimizer optimizer{net.parameters()};
                 run.for_each_batch([&](context& batch) {
                   if (++batches == 1)
                     return;
                   auto scores = net.forward(batch, batch.inputs());
                   if (batches == 2)
                     return;
                   batch.backward(mean_loss(scores, batch));
                   if (batches > 3)
                     optimizer.step(batch);
                 });
               }};
  for (uint64_t lease = 1; lease < 4; ++lease)
    CHECK(at.compute(at.task(lease)).cancelled);
  auto last = at.task(4);
  auto report = at.compute(last);
  CHECK_FALSE(report.cancelled);
  CHECK(at.push(last, report).equal(at.expected(last)));
  CHECK(at.roster->contexts() == 0);
}

TEST_CASE("calls in a wrong order are told to the loop") {
  diary of;
  auto fails = [&of](auto f) {
    try {
      f();
      of.write("no error");
    } catch (const usage_error& err) {
      of.write(err.what());
    }
  };
  loop_site at{"", [&](training& run) {
                 auto net = run.module();
                 auto some = net.parameters();
                 some.pop_back();
                 distributed_optimizer optimizer{net.parameters()};
                 distributed_optimizer partial{some};
                 run.for_each_batch([&](context& batch) {
                   auto few = batch.inputs().narrow(0, 0, 3);
                   fails([&] { net.forward(batch, few); });
                   fails([&] { batch.backward(at::ones({1})); });
                   fails([&] { batch.to_here(some[0]); });
                   fails([&] { optimizer.step(batch); });
                   auto scores = net.forward(batch, batch.inputs());
                   fails([&] { net.forward(batch, batch.inputs()); });
                   fails([&] { batch.gradients(); });
                   fails([&] { batch.backward(scores); });
                   auto other = at::ones({1}).set_requires_grad(true);
                   fails([&] { batch.backward(other.sum()); });
                   batch.backward(mean_loss(scores, batch));
                   fails([&] { batch.backward(mean_loss(scores, batch)); });
                   fails([&] { partial.step(batch); });
                   optimizer.step(batch);
                   fails([&] { optimizer.step(batch); });
                 });
               }};
  auto task = at.task(1);
  auto report = at.compute(task);
  CHECK(at.push(task, report).equal(at.expected(task)));
  auto once = "call backward once for a batch, after its forward";
  CHECK((of.read(11) ==
         std::vector<std::string>{
           "forward takes as many samples as the context has: 12", once,
           "a context has weights between forward and step",
           "a step comes once, after backward", "a context has one forward",
           "a context has gradients between backward and step",
           "backward needs a loss of one number, for example a mean",
           "the loss does not depend on what forward has given", once,
           "the server steps all parameters of the network: give the "
           "optimiser all of them",
           "a step comes once, after backward"}));
}

TEST_CASE("a loop that fails ends its worker with one line") {
  loop_site thrown{"", [](training& run) {
                     run.for_each_batch([](context&) {
                       throw std::runtime_error("no luck today\nat line 3");
                     });
                   }};
  CHECK(thrown.compute(thrown.task(1)).cancelled); // The batch is given back.
  thrown.compute(thrown.task(2));
  CHECK(thrown.trouble == "the training loop failed: no luck today");

  loop_site returned{"", [](training&) {
                     }};
  returned.compute(returned.task(1));
  CHECK(returned.trouble ==
        "the training loop failed: it has returned before the run was over");
}

TEST_CASE("a loop ends with the run, and is told its accuracy") {
  for (auto accuracy : {0.75, std::nan("")}) {
    diary of;
    loop_site at{"", [&](training& run) {
                   plain(run);
                   auto found = run.accuracy();
                   of.write(found ? std::to_string(*found) : "not known");
                 }};
    auto task = at.task(1);
    at.push(task, at.compute(task));
    at.self->send(at.loop, ended_atom_v, run_end{0, "", accuracy});
    CHECK(of.read(1).front() ==
          (std::isnan(accuracy) ? "not known" : "0.750000"));
  }
}

TEST_CASE("a loop ends with its worker") {
  diary of;
  loop_site at{"", [&](training& run) {
                 run.for_each_batch([&](context& batch) {
                   of.write("batch");
                   auto scores = run.module().forward(batch, batch.inputs());
                   of.write("forward");
                   of.read(3); // Until the worker is dead.
                   batch.backward(scores.sum());
                 });
                 of.write("over");
               }};
  auto task = at.task(1);
  {
    caf::scoped_actor worker{at.system};
    worker->send(at.loop, compute_atom_v, task);
    of.read(2);
  }
  of.write("the worker is dead");
  CHECK(of.read(4).back() == "over");
  CHECK(task.cancel->load());
}
