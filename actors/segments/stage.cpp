#include "actors/segments/stage.hpp"

#include "actors/runtime/inline_answer.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "actors/segments/activations.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "models/engine/batch_dropout.hpp"
#include "models/guarded.hpp"

#include <ATen/Parallel.h>

#include <exception>
#include <utility>

namespace troupe {

stage_state::stage_state(pointer self, const computing_parts& parts,
                         int64_t classes, const stage_place& where)
  : self_(self), parts_(parts), classes_(classes), where_(where) {
  if (!where_.device.empty())
    parts_.settings.training.device = where_.device;
  idle_.push_back(take_segment()); // So that errors in it are known at once.
}

stage_actor::behavior_type stage_state::make_behavior() {
  at::set_num_threads(parts_.threads);
  return {
    [this](forward_atom, const module_call& call) {
      return in_context(call, [this](auto& at, const module_call& call) {
        return forward(at, call);
      });
    },
    [this](backward_atom, const module_call& call) {
      return in_context(call, [this](auto& at, const module_call& call) {
        return backward(at, call);
      });
    },
    [this](cancel_atom, lease_id which) { end(which); },
    [this](begin_atom, const stage_context_ptr& context) { begin(context); },
  };
}

// Each context gets a segment of its own, since the parameters of a segment are
// bound to one version at a time.
std::unique_ptr<models::host_segment> stage_state::take_segment() {
  if (idle_.empty())
    return std::make_unique<models::host_segment>(
      parts_.settings.training, classes_, to_tensor(parts_.frozen),
      where_.parts, where_.range);
  auto out = std::move(idle_.back());
  idle_.pop_back();
  return out;
}

void stage_state::begin(const stage_context_ptr& context) {
  open_.insert_or_assign(context->from.id,
                         open_context{context, nullptr, {}, 0});
}

void stage_state::end(lease_id which) {
  auto gone = open_.extract(which);
  if (!gone || !gone.mapped().segment)
    return;
  gone.mapped().segment->end();
  idle_.push_back(std::move(gone.mapped().segment));
}

// A context that is not there was cancelled.
template <class F>
caf::result<module_answer> stage_state::in_context(const module_call& call,
                                                   F f) {
  module_answer out;
  run_clock clock{self_};
  auto found = open_.find(call.from.id);
  if (found == open_.end())
    return module_answer{.cancelled = true};
  try {
    out = models::guarded("computing a gradient",
                          [&] { return f(found->second, call); });
  } catch (const models::cancelled&) {
    out.cancelled = true;
    end(call.from.id);
  } catch (const std::exception& err) {
    end(call.from.id);
    return caf::make_error(errc::failed, one_line(err));
  }
  out.seconds = clock.elapsed(self_);
  return answer_inline(*self_, caf::expected<module_answer>{std::move(out)});
}

module_answer stage_state::forward(open_context& at, const module_call& call) {
  const auto& context = *at.what;
  if (!at.segment) {
    at.segment = take_segment();
    models::segment_batch batch{to_tensor(context.weights), context.gradient,
                                context.statistics};
    batch.cancel = context.cancel.get();
    at.segment->begin(batch);
  }
  auto inputs = to_tensor(call.inputs);
  auto count = static_cast<uint64_t>(inputs.defined() ? inputs.size(0) : 0);
  auto most = context.from.count;
  if (count == 0 || count > most || call.first > most - count ||
      at.samples > most - count)
    throw run_error("a micro-batch that is not of its lease");
  auto drop = models::dropout_of(parts_.settings.training.seed, call.from,
                                 static_cast<int64_t>(call.first));
  auto pass = at.segment->forward(inputs, drop, call.first == 0);
  module_answer out;
  out.outputs = to_activations(pass.outputs);
  at.samples += count;
  at.passes.insert_or_assign(call.first, std::move(pass));
  return out;
}

module_answer stage_state::backward(open_context& at, const module_call& call) {
  auto pass = at.passes.extract(call.first);
  if (!pass)
    throw run_error("backward without a forward pass before it");
  at.samples -= static_cast<uint64_t>(pass.mapped().there.inputs.size(0));
  auto inputs = at.segment->backward(pass.mapped(), to_tensor(call.inputs),
                                     {call.first == 0, call.last}, call.scale);
  module_answer out;
  out.outputs = to_activations(inputs);
  out.overflow = call.last && at.segment->overflowed();
  if (call.last)
    end(call.from.id);
  return out;
}

} // namespace troupe
