#include "apps/trainer_node/sizes.hpp"

#include "actors/weights/first_weights.hpp"
#include "actors/weights/server_model.hpp"
#include "apps/trainer_node/node.hpp"
#include "apps/trainer_node/origin.hpp"
#include "apps/trainer_node/segment_places.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/values/script.hpp"
#include "data/formats/survey.hpp"
#include "models/networks/registry.hpp"

#include <algorithm>
#include <filesystem>

namespace troupe::app {

namespace {

data::dataset_survey survey_parts(const config::settings& settings) {
  data::dataset_survey out;
  auto what = settings.data;
  for (uint32_t rank = 0; rank < settings.cluster.workers; ++rank) {
    what.data_dir = part_folder(settings, rank).string();
    auto part = data::survey_dataset(what);
    if (rank == 0) {
      out = part;
      continue;
    }
    if (part.classes && out.classes)
      require_same_classes(what.data_dir, *part.classes, *out.classes);
    if (out.train)
      *out.train += part.train.value_or(0);
    out.resident += part.resident;
    out.without.add(part.without);
  }
  return out;
}

/// Nothing if this node needs no files and their content is known.
std::optional<data::dataset_survey> known_facts(const config::settings& all) {
  auto needs_none = all.what != config::role::worker &&
                    all.what != config::role::evaluator &&
                    all.data.sharding == config::sharding_kind::local;
  auto facts = data::facts_of(all.data.dataset);
  if (!facts || !(needs_none || config::is_remote_shard(all)))
    return std::nullopt;
  return data::dataset_survey{all.data.dataset, facts->shape, facts->classes};
}

data::dataset_survey survey(const config::settings& all) {
  auto local = all.data.sharding == config::sharding_kind::local;
  if (local && all.what == config::role::simulate)
    return survey_parts(all);
  if (auto known = known_facts(all))
    return *known;
  auto out = data::survey_dataset(all.data);
  if (out.train && !local)
    data::require_batch(out.name, *out.train, all.training.batch_size);
  return out;
}

/// The number of classes for data that does not tell it beforehand.
int64_t usual_classes(const std::string& network) {
  return config::is_file(network) ? 0 : models::network_named(network).classes;
}

config::data_size size_of(const data::dataset_survey& survey) {
  auto [channels, height, width] = survey.shape;
  return {survey.classes,  survey.train,
          survey.test,     static_cast<uint64_t>(channels * height * width),
          survey.resident, survey.without.text()};
}

/// What a pass sends to a server, or gets from it.
std::string activations_of(const config::settings& all,
                           const models::segment_plan& cut) {
  auto bytes = cut.most_activations * models::size_of(all.training.dtype);
  return bytes > 0
           ? "; at most " + config::size_text(bytes) + " of activations a pass"
           : "";
}

} // namespace

void require_shards(const config::resolved& config,
                    const models::flat_layout& layout) {
  auto width = models::size_of(layout.dtype());
  if (config::has_remote_shards(config.values) && !layout.owned().empty()) {
    auto ranges = cut_parameters(layout, config.values.cluster.shards);
    for (size_t rank = 0; rank < ranges.size(); ++rank)
      if (ranges[rank].count == 0)
        throw usage_error(config.cite("parallel.placement") +
                          ": the shard of rank " + std::to_string(rank) +
                          " owns no parameter: give it one, or leave it out");
    return;
  }
  auto most = models::most_shards(layout.parameter_count(), width);
  if (config.values.cluster.shards > most)
    throw usage_error(config.cite("cluster.shards") + ": the weights of '" +
                      config.values.training.network + "' are " +
                      std::to_string(layout.parameter_count() * width) +
                      " bytes, and each shard owns a page of 4096 at least; "
                      "give at most " +
                      std::to_string(most));
}

config::model_size sizes_of(const config::resolved& config) {
  const auto& all = config.values;
  config::model_size out;
  if (!trains(all)) {
    out.classes = classes_of_none;
  } else {
    auto data = survey(all);
    models::require_suitable(all.training.network, data.name,
                             {data.shape.begin(), data.shape.end()},
                             data.classes.value_or(0));
    out.data = size_of(data);
    out.classes = data.classes.value_or(usual_classes(all.training.network));
    std::array<uint64_t, 3> shape{};
    std::ranges::copy(data.shape, shape.begin());
    auto measured = all; // A GPU is not taken for this.
    measured.training.device = "cpu";
    if (auto cut = make_plan(measured, out.classes, shape)) {
      out.cut = cut->description + activations_of(all, *cut);
      out.with_servers = cut->parameters - cut->own_parameters;
    }
  }
  auto layout = models::layout_of(all.training, out.classes);
  require_shards(config, layout);
  out.parameters = layout.parameter_count();
  out.statistics = layout.count() - out.parameters;
  out.frozen = layout.frozen_count();
  for (const auto& part : cut_parameters(layout, all.cluster.shards))
    out.shard_bytes.push_back(part.count * models::size_of(layout.dtype()));
  return out;
}

std::string plan_with_model(const config::resolved& config) {
  auto sizes = sizes_of(config);
  std::string out;
  if (config::decides(config.values) && !config.values.training.resume)
    if (auto first = read_first_weights(config.values.training, sizes.classes))
      for (const auto& line : first->lines)
        out += "init         " + line + "\n";
  return config::plan(config, sizes) + out;
}

} // namespace troupe::app
