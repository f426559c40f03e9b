#include "actors/server/step_pipeline.hpp"

#include "actors/core/take_held.hpp"

#include <memory>
#include <span>
#include <utility>

namespace troupe {

step_pipeline::step_pipeline(lead& of, step_pipeline_parts parts)
  : lead_(of), parts_(std::move(parts)), rate_(parts_.settings) {
  // nop
}

void step_pipeline::hold(const push_header& header, const payload& gradient,
                         uint32_t fragment) {
  held_.emplace(header.id, held_push{header.samples, gradient, fragment});
}

std::vector<double>
step_pipeline::rates_of(const std::vector<cores::update_order>& steps,
                        double epochs, uint64_t samples) const {
  std::vector<double> out;
  uint64_t before = 0;
  for (const auto& step : steps) {
    auto done = epochs;
    if (before > 0 && samples > 0)
      done += static_cast<double>(before) / static_cast<double>(samples);
    out.push_back(rate_.at({done, step.makes.value - 1}) * step.rate_factor);
    if (out.size() == steps.size())
      break;
    for (const auto& part : step.gradients)
      before += held_.at(part.id).samples;
  }
  return out;
}

void step_pipeline::carry_out(const cores::orders& decided,
                              const std::vector<double>& rates) {
  std::vector<push_id> dropped;
  for (const auto& late : decided.drop) {
    held_.erase(late.id);
    lead_.push_settled(late.id, false);
    dropped.push_back(late.id);
  }
  parts_.shards->drop(dropped);
  decided_ = decided;
  shards_are_told_ = false;
  for (size_t i = 0; i < decided.updates.size(); ++i)
    ordered_.emplace_back(decided.updates[i], rates.at(i));
  if (!decided.updates.empty())
    before_ = made_ = version{decided.updates.front().makes.value - 1};
  proceed();
}

void step_pipeline::proceed() {
  while (!ordered_.empty()) {
    auto [order, rate] = std::move(ordered_.front());
    ordered_.pop_front();
    if (!add_up(begin(order, rate)))
      return;
  }
  all_are_ordered();
  if (auto before = std::exchange(before_, made_); before != made_)
    lead_.versions_made(before, made_);
  if (auto done = std::exchange(decided_, std::nullopt))
    lead_.decision_done(*done);
}

/// Goes on with a step when the gradients that are only offered are added up.
/// While all shards do that, this one handles no message: the ledger must not
/// be ahead of the weights. Returns as `limit`.
bool step_pipeline::add_up(step next) {
  shard_step offered;
  offered.makes = next.what.makes;
  double all = 0;
  for (size_t i = 0; i < next.gradients.size(); ++i)
    if (next.gradients[i].is_absent() && parts_.exchange) {
      offered.gradients.push_back(next.what.gradients[i]);
      offered.shares.push_back(next.what.shares[i]);
      all += next.shares[i];
    }
  if (offered.gradients.empty())
    return limit(std::move(next));
  parts_.shards->add_up(offered);
  parts_.self
    ->request(parts_.exchange.front, caf::infinite, sum_atom_v, offered)
    .await(
      [this, next = std::move(next), all](const payload& sum) mutable {
        lead_.attempt_later([&] {
          use_sum(next, sum, all);
          if (limit(std::move(next)))
            proceed();
        });
      },
      [this](const caf::error& why) {
        parts_.shards->sum_failed(text_of(why));
      });
  return false;
}

/// In the place of the gradients that were offered.
void step_pipeline::use_sum(step& next, const payload& sum, double share) {
  std::vector<payload> gradients;
  std::vector<double> shares;
  for (size_t i = 0; i < next.gradients.size(); ++i)
    if (!next.gradients[i].is_absent()) {
      gradients.push_back(next.gradients[i]);
      shares.push_back(next.shares[i]);
    }
  gradients.push_back(sum);
  shares.push_back(share);
  next.gradients = std::move(gradients);
  next.shares = std::move(shares);
  next.has_sum = true;
}

/// Goes on with a step when the norm of its gradient is limited. Returns
/// whether the step is made; if not, other shards were asked for something, and
/// `proceed` is called when they have answered.
bool step_pipeline::limit(step next) {
  if (!parts_.model->clips())
    return measure(std::move(next));
  auto own = parts_.model->squares(next.mean());
  if (!parts_.shards->any()) {
    next.what.scale = parts_.model->scale_of(own);
    return measure(std::move(next));
  }
  auto what = next.what;
  parts_.shards->squares(what,
                         [this, next = std::move(next), own = std::move(own)](
                           const models::exact_sum& others) mutable {
                           lead_.attempt_later([&] {
                             own.add(others.parts());
                             next.what.scale = parts_.model->scale_of(own);
                             if (measure(std::move(next)))
                               proceed();
                           });
                         });
  return false;
}

/// The same for a step whose norm is limited: goes on when the factors of its
/// parameters are known.
bool step_pipeline::measure(step next) {
  if (!parts_.model->has_factors()) {
    finish(std::move(next));
    return true;
  }
  if (parts_.shards->any()) {
    ask_for_factors(std::move(next));
    return false;
  }
  finish(std::move(next), parts_.model->measure(next.mean(), next.what.scale));
  return true;
}

// The lead measures while the others do.
void step_pipeline::ask_for_factors(step next) {
  auto open = std::make_shared<step>(std::move(next));
  auto all = std::make_shared<std::vector<models::parameter_squares>>();
  parts_.shards->measure(
    open->what,
    [this, open, all](std::span<const models::parameter_squares> others) {
      lead_.attempt_later([&] {
        all->insert(all->end(), others.begin(), others.end());
        finish(std::move(*open), *all);
        proceed();
      });
    });
  *all = parts_.model->measure(open->mean(), open->what.scale);
}

void step_pipeline::clear() {
  held_.clear();
  ordered_.clear();
  decided_.reset();
}

auto step_pipeline::begin(const cores::update_order& order, double rate)
  -> step {
  step out;
  out.what.makes = order.makes;
  out.what.lr = rate;
  auto momentum = momentum_;
  if (parts_.momentum && order.members > 0)
    if (auto found = parts_.momentum(order.members))
      momentum = found;
  if (momentum)
    out.what.momentum = *momentum;
  out.what.use = order.momentum;
  for (const auto& part : order.gradients) {
    auto held = cores::take_held(held_, part.id);
    out.what.gradients.push_back(part.id);
    out.shares.push_back(static_cast<double>(held.samples) * part.weight);
    out.gradients.push_back(std::move(held.gradient));
    if (parts_.settings.fragments > 1)
      out.fragments.push_back(held.fragment);
    lead_.push_settled(part.id, true);
  }
  out.what.shares.assign(out.shares.begin(), out.shares.end());
  return out;
}

// The gradients are released before anybody is answered, so that their memory
// is free for the next ones.
void step_pipeline::finish(step next) {
  const auto& what = next.what;
  parts_.shards->step(what);
  if (ordered_.empty())
    all_are_ordered();
  parts_.model->step(what.makes, std::move(next.gradients), next.shares,
                     terms_of(what), next.fragments);
  made_ = what.makes;
  if (!next.has_sum)
    return;
  gathered_ = made_;
  parts_.exchange.exchange->gather(made_, parts_.model->newest());
}

void step_pipeline::finish(
  step next, const std::vector<models::parameter_squares>& measured) {
  auto factors = parts_.model->factors_of(measured);
  next.what.factors.assign(factors.begin(), factors.end());
  finish(std::move(next));
}

void step_pipeline::all_are_ordered() {
  if (decided_ && !std::exchange(shards_are_told_, true))
    lead_.steps_ordered(*decided_);
}

} // namespace troupe
