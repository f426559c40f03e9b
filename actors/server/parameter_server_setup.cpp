// How a parameter server is made: its parts, and what each of them works on.

#include "actors/runtime/tensor_payload.hpp"
#include "actors/server/parameter_server.hpp"
#include "actors/server/restore.hpp"
#include "config/schema/policies.hpp"
#include "config/values/compression.hpp"
#include "models/layout/fragments.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

namespace troupe {

namespace {

using checkpoint_ptr = std::shared_ptr<const models::loaded_checkpoint>;

/// What is needed of a checkpoint once the model has its numbers.
checkpoint_ptr without_tensors(const checkpoint_ptr& checkpoint) {
  if (!checkpoint)
    return nullptr;
  models::loaded_checkpoint out;
  out.path = checkpoint->path;
  out.manifest = checkpoint->manifest;
  return std::make_shared<const models::loaded_checkpoint>(std::move(out));
}

std::shared_ptr<turn_watch> make_turn_watch(const parameter_server_parts& of) {
  if (!of.watches)
    return nullptr;
  return std::make_shared<turn_watch>(of.settings.cluster.hang_timeout);
}

/// The settings that the user changed for this start.
std::vector<config::change> changes_of(const parameter_server_parts& parts) {
  std::vector<config::change> out;
  std::ranges::copy_if(
    parts.description.changes, std::back_inserter(out),
    [&](const auto& one) { return one.life == parts.life().value; });
  return out;
}

} // namespace

parameter_server_state::parameter_server_state(pointer self,
                                               parameter_server_parts parts)
  : self_(self), parts_(std::move(parts)), model_(make_server_model(parts_)),
    shards_(
      self, parts_.remote_shards(),
      [this](const caf::error& why) {
        auto by = why == errc::disk ? "" : "a parameter server shard failed: ";
        fail_for_others(by + text_of(why));
      },
      parts_.settings.cluster.liveness_timeout, parts_.exchange),
    scheduler_(make_step_scheduler(parts_)), newest_(scheduler_.current()),
    clock_(self), best_(parts_.from.best),
    next_(parts_.settings.cluster.workers),
    log_(parts_.event_log ? std::make_shared<event_log_writer>(
                              parts_.event_log, self->clock().now())
                          : nullptr),
    metrics_(std::make_shared<run_metrics>(static_cast<note_sink&>(*this),
                                           metrics_parts())),
    traffic_(std::make_shared<node_traffic>(bytes_of_nodes(),
                                            parts_.settings.cluster.workers)),
    codec_(make_codec()), turns_(make_turn_watch(parts_)),
    requests_(*this, requests_parts()), pipeline_(*this, pipeline_parts()),
    feed_(*this, feed_parts()),
    checkpoints_(*this, schedule_parts(),
                 parts_.from.resumed ? std::optional{newest_} : std::nullopt),
    ending_(*this) {
  if (parts_.from.resumed) {
    before_ = metrics_->load(parts_.from.resumed->manifest.counters());
    clock_ = run_clock{self, before_.elapsed_seconds};
  }
  // The best weights may come from steps that were rolled back.
  if (best_)
    metrics_->load(*best_);
  // Frees what is as large as the model and its optimiser.
  parts_.from.first.reset();
  parts_.from.resumed = without_tensors(parts_.from.resumed);
  events_.subscribe(log_);
  events_.subscribe(metrics_);
  events_.subscribe(traffic_);
  events_.subscribe(turns_);
  events_.subscribe(parts_.observer);
}

// -- what each part works on -------------------------------------------------

run_metrics_parts parameter_server_state::metrics_parts() {
  run_metrics_parts out;
  out.settings = parts_.settings;
  out.run_id = parts_.description.run_id;
  out.changes = changes_of(parts_);
  out.scheduler = &scheduler_;
  out.standstill = parts_.began ? 0 : standstill_after;
  out.launched = parts_.launched;
  return out;
}

// The statistics behind the parameters are the lead's.
node_bytes parameter_server_state::bytes_of_nodes() const {
  node_bytes out;
  if (!model_.has_weights())
    return out;
  const auto& cluster = parts_.settings.cluster;
  const auto& layout = *model_.layout();
  auto ranges = cut_parameters(layout, cluster.shards);
  ranges.front().count += layout.count() - layout.parameter_count();
  auto bytes_in = [&layout](const models::element_range& range) {
    return range.count * models::size_of(layout.dtype());
  };
  out.whole = layout.bytes();
  models::fragments cuts{layout, parts_.settings.training.fragments};
  for (uint32_t k = 0; k < cuts.count(); ++k) {
    out.fragments.push_back(bytes_in(cuts.all(k)));
    out.lead_fragments.push_back(bytes_in({0, model_.shape(k).count}));
  }
  out.lead = parts_.remote_shards() > 0 ? bytes_in(ranges.front()) : out.whole;
  if (cluster.topology == config::topology_kind::peers)
    std::ranges::transform(ranges, std::back_inserter(out.beside), bytes_in);
  return out;
}

transport::codec_ptr parameter_server_state::make_codec() const {
  if (!model_.has_weights())
    return nullptr;
  const auto& layout = *model_.layout();
  auto statistics = layout.count() - layout.parameter_count();
  std::vector<uint64_t> fragments;
  auto count = parts_.settings.training.fragments;
  for (uint32_t k = 0; count > 1 && k < count; ++k)
    fragments.push_back(model_.shape(k).count);
  return transport::make_codec(
    config::parse_compression(parts_.settings.cluster.compression),
    model_.shape().count - statistics, statistics, fragments);
}

worker_requests_parts parameter_server_state::requests_parts() {
  worker_requests_parts out;
  out.self = self_;
  out.scheduler = &scheduler_;
  out.model = &model_;
  out.shards = &shards_;
  out.takes_offers = parts_.exchange != nullptr;
  out.recorded_norm = parts_.recorded_norm;
  out.notes = &parts_.notes;
  return out;
}

step_pipeline_parts parameter_server_state::pipeline_parts() {
  step_pipeline_parts out;
  out.settings = parts_.settings.training;
  out.model = &model_;
  out.shards = &shards_;
  out.self = self_;
  out.exchange = spawn_exchange_front(self_->system(), parts_.exchange);
  if (parts_.settings.cluster.is_elastic())
    out.momentum = [this](uint32_t members) -> std::optional<double> {
      const auto& settings = parts_.settings;
      if (!settings.training.momentum_by_workers.value_or(false))
        return std::nullopt;
      return config::facts_of(settings.policy).momentum(members);
    };
  return out;
}

version_feed_parts parameter_server_state::feed_parts() {
  version_feed_parts out;
  out.self = self_;
  out.model = &model_;
  out.shards = &shards_;
  out.frequency = parts_.settings.evaluation.eval_freq.steps;
  out.epochs = scheduler_.ledger().epochs_completed();
  out.keeps_shown =
    parts_.settings.checkpoint.keep_best != config::best_rule::nothing &&
    model_.has_weights();
  if (parts_.from.first && !parts_.from.first->from.file.empty())
    out.first = to_payload(parts_.from.first->weights.trained);
  return out;
}

checkpoint_schedule_parts parameter_server_state::schedule_parts() {
  checkpoint_schedule_parts out;
  out.self = self_;
  out.writer = parts_.writer;
  out.model = &model_;
  out.shards = &shards_;
  out.folder = parts_.checkpoints;
  out.frequency = parts_.settings.checkpoint.checkpoint_freq;
  // Nothing is learned and no epoch ends: there is nothing to resume from.
  out.wanted = model_.has_weights() || parts_.data.samples != cores::endless;
  out.workers_carry =
    parts_.settings.training.local_steps.most > 0 ||
    config::parse_compression(parts_.settings.cluster.compression)
      .has_error_feedback();
  return out;
}

} // namespace troupe
