#include "apps/trainer_node/tensor_ways.hpp"

#include "actors/weights/server_model.hpp"
#include "config/values/compression.hpp"

#include <span>
#include <string>

namespace troupe::app {

uint64_t statistics_of(const models::flat_layout& layout) {
  return layout.count() - layout.parameter_count();
}

std::vector<uint64_t> fragments_of(const config::settings& settings,
                                   const models::flat_layout& layout,
                                   const models::element_range& range) {
  auto count = settings.training.fragments;
  if (count == 1)
    return {};
  return models::fragments{layout, count}.within(range).sizes();
}

transport::codec_ptr codec_of(const config::settings& settings,
                              const payload_shape& weights,
                              const models::flat_layout& layout) {
  auto statistics = statistics_of(layout);
  models::element_range own{layout.count() - weights.count, weights.count};
  return transport::make_codec(
    config::parse_compression(settings.cluster.compression),
    weights.count - statistics, statistics,
    fragments_of(settings, layout, own));
}

worker_store store_of(const config::settings& settings, const origin& from) {
  return {from.directory.path, settings.checkpoint.keep, from.run_id};
}

compression compression_of(const config::settings& settings, const origin& from,
                           const models::flat_layout& layout) {
  return {codec_of(settings, shape_of(layout), layout),
          store_of(settings, from)};
}

namespace {

transport::summed_as form_of(const config::settings& settings) {
  switch (config::parse_compression(settings.cluster.compression).kind) {
  case config::compression_kind::fp16:
    return transport::summed_as::float16;
  case config::compression_kind::bf16:
    return transport::summed_as::bfloat16;
  default:
    return transport::summed_as::themselves;
  }
}

} // namespace

// The lead, of rank 0, has the last range, with the statistics behind it.
void open_exchange(transport::gpu_exchange& exchange,
                   transport::exchange_terms terms,
                   const config::settings& settings,
                   const models::flat_layout& layout, const speech& say) {
  auto ranges = cut_parameters(layout, settings.cluster.shards);
  auto size = static_cast<int>(ranges.size());
  terms.rank = (static_cast<int>(*settings.cluster.rank) + size - 1) % size;
  terms.cut.type = shape_of(layout).type;
  for (const auto& range : std::span{ranges}.subspan(1))
    terms.cut.counts.push_back(range.count);
  terms.cut.counts.push_back(layout.count() - ranges.front().first);
  terms.form = form_of(settings);
  exchange.open(terms, [say, size](const std::string& why_over) {
    say(why_over.empty()
          ? "sums         over NCCL, by " + std::to_string(size) + " GPUs"
          : "sums         without NCCL: " + why_over);
  });
}

} // namespace troupe::app
