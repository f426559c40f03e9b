#include "actors/own_loop/training.hpp"

#include "actors/own_loop/server_link.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "actors/segments/activations.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "data/dataset.hpp"
#include "models/scalar.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <numeric>
#include <utility>

namespace troupe::remote {

namespace {

training_function& the_function() {
  static training_function f;
  return f;
}

std::atomic<int> running = 0;

uint64_t count_of(const remote_parameter& parameter) {
  return std::accumulate(
    parameter.sizes.begin(), parameter.sizes.end(), uint64_t{1},
    [](uint64_t x, int64_t size) { return x * static_cast<uint64_t>(size); });
}

} // namespace

// -- the loop's thread --------------------------------------------------------

server_link::server_link(caf::blocking_actor* self, training_loop_actor there,
                         const training_loop_parts& parts)
  : self_(self), there_(std::move(there)), parameters_(parts.parameters),
    most_elements_(std::max<uint64_t>(parts.most_elements, 1)),
    dtype_(parts.dtype) {
  // nop
}

template <class... Ts>
module_answer server_link::ask(const Ts&... request) {
  module_answer out;
  caf::error problem;
  self_->request(there_, caf::infinite, request...)
    .receive([&out](const module_answer& answer) { out = answer; },
             [&problem](const caf::error& why) { problem = why; });
  if (problem == errc::failed || problem == errc::protocol_violation)
    throw usage_error(text_of(problem));
  if (problem || out.cancelled)
    throw cancelled{};
  return out;
}

std::optional<compute_task> server_link::next() {
  std::optional<compute_task> out;
  self_->request(there_, caf::infinite, load_atom_v)
    .receive([&out](const compute_task& task) { out = task; },
             [](const caf::error&) {
               // The run is over.
             });
  return out;
}

activations server_link::forward(lease_id in, const activations& inputs) {
  module_call call;
  call.from.id = in;
  call.inputs = inputs;
  return ask(forward_atom_v, call).outputs;
}

void server_link::backward(lease_id in, const activations& gradient) {
  module_call call;
  call.from.id = in;
  call.inputs = gradient;
  ask(backward_atom_v, call);
}

void server_link::push(lease_id which, double loss) {
  ask(push_atom_v, which, loss);
}

at::Tensor server_link::read(context_part place) {
  auto out =
    at::empty({static_cast<int64_t>(place.count)}, models::to_aten(dtype_));
  auto left = place.count;
  for (int64_t at = 0; left > 0;) {
    place.count = std::min(left, most_elements_);
    auto size = static_cast<int64_t>(place.count);
    out.narrow(0, at, size).copy_(to_tensor(ask(fetch_atom_v, place).outputs));
    at += size;
    place.first += place.count;
    left -= place.count;
  }
  return out;
}

void server_link::give_back(lease_id which) {
  self_->send(there_, cancel_atom_v, which);
}

double server_link::accuracy() {
  double out = run_end{}.accuracy;
  self_->request(there_, caf::infinite, evaluate_atom_v)
    .receive([&out](double found) { out = found; },
             [](const caf::error&) {
               // It is not known.
             });
  return out;
}

caf::actor start(caf::actor_system& system, const training_loop_actor& there,
                 const training_loop_parts& parts) {
  ++running;
  return system.spawn<caf::detached>([there, parts](caf::blocking_actor* self) {
    at::set_num_threads(parts.threads);
    std::string problem = "it has returned before the run was over";
    try {
      training run{std::make_shared<server_link>(self, there, parts)};
      parts.train(run);
    } catch (const cancelled& err) {
      problem = err.what();
    } catch (const std::exception& err) {
      problem = one_line(err);
    } catch (...) {
      problem = "it has thrown something that is no exception";
    }
    self->send(there, refuse_atom_v, "the training loop failed: " + problem);
    --running;
  });
}

bool is_training() {
  return running > 0;
}

// -- contexts -----------------------------------------------------------------

const char* cancelled::what() const noexcept {
  return "the batch of this context is no longer wanted";
}

context::context(std::shared_ptr<server_link> link, uint64_t id,
                 at::Tensor inputs, at::Tensor targets)
  : link_(std::move(link)), id_(id), inputs_(std::move(inputs)),
    targets_(std::move(targets)) {
  // nop
}

context::~context() {
  if (state_ != state::stepped)
    link_->give_back(lease_id{id_});
}

void context::backward(const at::Tensor& loss) {
  if (state_ != state::forward)
    throw usage_error("call backward once for a batch, after its forward");
  if (!loss.defined() || loss.numel() != 1)
    throw usage_error("backward needs a loss of one number, for example a "
                      "mean");
  auto gradient = torch::autograd::grad({loss}, {scores_}, {}, std::nullopt,
                                        false, /*allow_unused=*/true)[0];
  if (!gradient.defined())
    throw usage_error("the loss does not depend on what forward has given");
  loss_ = loss.item<double>();
  link_->backward(lease_id{id_}, to_activations(gradient));
  state_ = state::backward;
}

std::map<std::string, at::Tensor> context::gradients() const {
  if (state_ != state::backward)
    throw usage_error("a context has gradients between backward and step");
  std::map<std::string, at::Tensor> out;
  for (const auto& what : link_->parameters())
    out.emplace(what.name, read(what, true));
  return out;
}

at::Tensor context::to_here(const remote_parameter& parameter) const {
  if (state_ != state::forward && state_ != state::backward)
    throw usage_error("a context has weights between forward and step");
  return read(parameter, false);
}

at::Tensor context::read(const remote_parameter& parameter,
                         bool gradient) const {
  context_part part;
  part.from = lease_id{id_};
  part.server = parameter.server.value_or(0);
  part.gradient = gradient;
  part.first = parameter.first;
  part.count = count_of(parameter);
  return link_->read(part).view(parameter.sizes);
}

// -- the network --------------------------------------------------------------

remote_module::remote_module(std::shared_ptr<server_link> link)
  : link_(std::move(link)) {
  // nop
}

at::Tensor remote_module::forward(context& in, const at::Tensor& inputs) const {
  if (in.state_ != context::state::fresh)
    throw usage_error("a context has one forward");
  if (!inputs.defined() || inputs.dim() == 0 ||
      inputs.size(0) != in.targets().size(0))
    throw usage_error("forward takes as many samples as the context has: " +
                      std::to_string(in.targets().size(0)));
  auto scores = link_->forward(lease_id{in.id_}, to_activations(inputs));
  in.scores_ = to_tensor(scores).detach().set_requires_grad(true);
  in.state_ = context::state::forward;
  return in.scores_;
}

const std::vector<remote_parameter>& remote_module::parameters() const {
  return link_->parameters();
}

distributed_optimizer::distributed_optimizer(
  std::vector<remote_parameter> parameters)
  : parameters_(std::move(parameters)) {
  // nop
}

void distributed_optimizer::step(context& of) const {
  if (of.state_ != context::state::backward)
    throw usage_error("a step comes once, after backward");
  if (parameters_ != of.link_->parameters())
    throw usage_error("the server steps all parameters of the network: give "
                      "the optimiser all of them");
  of.link_->push(lease_id{of.id_}, of.loss_);
  of.state_ = context::state::stepped;
}

// -- the run ------------------------------------------------------------------

training::training(std::shared_ptr<server_link> link) : link_(std::move(link)) {
  // nop
}

remote_module training::module() const {
  return remote_module{link_};
}

void training::for_each_batch(const std::function<void(context&)>& body) {
  while (auto task = link_->next()) {
    context batch{link_, task->from.id.value, task->batch->inputs,
                  task->batch->targets};
    try {
      body(batch);
    } catch (const cancelled&) {
      // The next one is on its way.
    }
  }
}

std::optional<double> training::accuracy() const {
  auto found = link_->accuracy();
  return std::isnan(found) ? std::nullopt : std::optional{found};
}

register_training::register_training(training_function f) {
  the_function() = std::move(f);
}

const training_function& registered_training() {
  return the_function();
}

} // namespace troupe::remote
