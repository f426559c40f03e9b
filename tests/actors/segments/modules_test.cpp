// Networks in segments: the chain beside a worker, stages, and the remote
// module before a server, here a double.

#include "config/text/failure.hpp"
#include "models/engine/intra_op.hpp"
#include "models/networks/chain.hpp"
#include "models/networks/registration.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/module_site.hpp"

#include <ATen/record_function.h>
#include <catch2/catch_test_macros.hpp>
#include <torch/nn/modules/linear.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::test;

namespace {

/// What comes out of its first part does not fit into its second.
class misfit final : public models::chain_network {
public:
  explicit misfit(int64_t classes) : chain_network("misfit") {
    torch::nn::Linear first{784, 16};
    torch::nn::Linear last{15, classes};
    module().register_module("first", first);
    module().register_module("last", last);
    add({"first"},
        [first](const at::Tensor& x, const models::pass_context&) mutable {
          return first(x.flatten(1));
        });
    add({"last"},
        [last](const at::Tensor& x, const models::pass_context&) mutable {
          return last(x);
        });
  }
};

const models::register_network mine{
  {"misfit", {1, 28, 28}, 10, 0, [](int64_t number) {
     return std::make_shared<misfit>(number);
   }}};

/// The threads that LibTorch may use for each loss of this thread.
class threads_of_losses {
public:
  threads_of_losses() {
    seen_.clear();
    handle_ =
      at::addThreadLocalCallback(at::RecordFunctionCallback(on_function)
                                   .scopes({at::RecordScope::FUNCTION}));
  }

  ~threads_of_losses() { at::removeCallback(handle_); }

  threads_of_losses(const threads_of_losses&) = delete;
  threads_of_losses& operator=(const threads_of_losses&) = delete;

  const std::vector<int>& seen() const { return seen_; }

private:
  static std::unique_ptr<at::ObserverContext>
  on_function(const at::RecordFunction& f) {
    if (f.name() == std::string{"aten::cross_entropy_loss"})
      seen_.push_back(at::get_num_threads());
    return nullptr;
  }

  static inline std::vector<int> seen_;
  at::CallbackHandle handle_;
};

} // namespace

TEST_CASE("stages whose shapes do not fit each other are one line") {
  config::settings all;
  all.training.network = "misfit";
  all.training.placement = "first=worker,last=ps:0";
  all.parallel.mode = config::parallel_mode::remote_forward;
  CHECK(error_line<run_error>([&] {
          models::make_segment_plan(all, 10, {1, 28, 28});
        }) == "cutting the network failed: mat1 and mat2 shapes cannot be "
              "multiplied (1x16 and 15x10)");
}

TEST_CASE("a push gets the gradient of its context") {
  for (const auto& placement :
       {all_remote, both, std::string{"conv1=worker,conv2=ps:0,*=worker"}}) {
    INFO(placement);
    module_site it{placement};
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

TEST_CASE("a chain computes its loss with the threads that it was given") {
  module_site it{all_remote};
  auto task = it.task(it.pull(version{0}));
  models::intra_op_threads of_the_caller{3};
  threads_of_losses losses;
  it.compute(task);
  CHECK(losses.seen() == std::vector{1});
  CHECK(at::get_num_threads() == 3);
}

TEST_CASE("a version stays while its context is open, and no longer") {
  module_site it{all_remote};
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
  module_site it{all_remote};
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
  module_site it{all_remote};
  it.pull(version{0});
  it.forward(it.call(1));
  CHECK(it.roster->contexts() == 1);
  it.actors.kill(it.server.handle);
  CHECK_FALSE(it.actors.alive(it.module));
  CHECK(it.roster->contexts() == 0);
}

TEST_CASE("the end of the run closes contexts") {
  module_site it{all_remote};
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
  module_site it{all_remote};
  it.pull(version{0});
  for (uint64_t lease = 1; lease <= 200; ++lease) {
    REQUIRE_FALSE(it.forward(it.call(lease))->error);
    it.actors.tell(it.module, cancel_atom_v, lease_id{lease});
  }
  CHECK(it.roster->contexts() == 0);
  CHECK(it.memory->taken <= remote_module_state::most_contexts);
}

TEST_CASE("what does not fit a context is refused") {
  module_site it{both};
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
  module_site it{all_remote};
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
  module_site it{all_remote};
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
  module_site it{all_remote};
  auto weights = it.pull(version{4});
  auto task = it.task(weights, 1, version{4});
  auto found = it.compute(task);
  task.computed_on = version{5};
  CHECK(it.push(task, found.gradient).shape() == found.gradient.shape());
}

TEST_CASE("a push without a complete context goes on as it came") {
  module_site it{all_remote};
  auto weights = it.pull(version{0});
  auto task = it.task(weights, 1);
  CHECK(it.push(task, weights).shape() == weights.shape());
  it.forward(it.call(1)); // No backward.
  CHECK(it.push(task, weights).shape() == weights.shape());
  CHECK(it.roster->contexts() == 0);
}

TEST_CASE("a cancelled chain closes its contexts and goes on") {
  module_site it{both};
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
  module_site it{all_remote};
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
    module_site it{"conv1=worker:cpu,conv2=worker,*=worker", 2, order};
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
