#include "apps/trainer_node/tensor_ways.hpp"

#include "actors/weights/server_model.hpp"
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

} // namespace troupe::app
