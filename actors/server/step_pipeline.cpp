#include "actors/server/step_pipeline.hpp"

#include "actors/core/take_held.hpp"

#include <utility>

namespace troupe {

step_pipeline::step_pipeline(step_pipeline_parts parts)
  : parts_(std::move(parts)), rate_(parts_.settings) {
  // nop
}

void step_pipeline::hold(const push_header& header, const payload& gradient) {
  held_.emplace(header.id, held_push{header.samples, gradient});
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

void step_pipeline::carry_out(const cores::orders& what,
                              const std::vector<double>& rates) {
  std::vector<push_id> dropped;
  for (const auto& late : what.drop) {
    held_.erase(late.id);
    parts_.settled(late.id);
    dropped.push_back(late.id);
  }
  parts_.shards->drop(dropped);
  for (size_t i = 0; i < what.updates.size(); ++i)
    make(what.updates[i], rates.at(i));
}

// The gradients are released before anybody is answered, so that their memory
// is free for the next ones.
void step_pipeline::make(const cores::update_order& step, double rate) {
  std::vector<push_id> ids;
  std::vector<payload> gradients;
  std::vector<double> shares;
  for (const auto& part : step.gradients) {
    auto held = cores::take_held(held_, part.id);
    ids.push_back(part.id);
    gradients.push_back(std::move(held.gradient));
    shares.push_back(static_cast<double>(held.samples) * part.weight);
    parts_.settled(part.id);
  }
  parts_.shards->step(step.makes, std::move(ids), shares, rate);
  parts_.model->step(step.makes, std::move(gradients), shares, rate);
  parts_.made(step.makes);
}

} // namespace troupe
