#include "apps/trainer_node/tensor_ways.hpp"

#include "actors/session/path_choice.hpp"
#include "actors/weights/server_model.hpp"
#include "apps/startup/resources.hpp"
#include "config/schema/paths.hpp"
#include "config/values/compression.hpp"

namespace troupe::app {

uint64_t statistics_of(const models::flat_layout& layout) {
  return layout.count() - layout.parameter_count();
}

transport::codec_ptr codec_of(const config::settings& settings,
                              const payload_shape& weights,
                              const models::flat_layout& layout) {
  auto statistics = statistics_of(layout);
  return transport::make_codec(
    config::parse_compression(settings.cluster.compression),
    weights.count - statistics, statistics);
}

compression compression_of(const config::settings& settings, const origin& from,
                           const models::flat_layout& layout) {
  return {codec_of(settings, shape_of(layout), layout),
          {from.directory.path, settings.checkpoint.keep, from.run_id}};
}

gpu_paths find_gpus(const config::settings& settings,
                    const models::flat_layout& layout, const speech& say) {
  gpu_paths out{nccl_for(settings), nullptr};
  auto weights = shape_of(layout);
  const auto* wanted = config::find_path(settings.cluster.transport);
  if (wanted != nullptr && wanted->sums &&
      !config::has_remote_shards(settings) &&
      !codec_of(settings, weights, layout) &&
      adds_up(settings, statistics_of(layout) > 0))
    out.collective = collective_for(out.nccl, weights, say);
  return out;
}

} // namespace troupe::app
