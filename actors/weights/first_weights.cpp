#include "actors/weights/first_weights.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "actors/shards/shard_model.hpp"
#include "actors/weights/server_model.hpp"
#include "config/patterns/key_patterns.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "models/exchange/taken_weights.hpp"
#include "models/layout/segments.hpp"
#include "models/shape_text.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstring>

namespace troupe {

namespace {

std::vector<std::string> lines_of(const models::weights_file& from,
                                  const models::taken_weights& taken) {
  auto all = taken.count + taken.skipped.size();
  std::vector<std::string> out{
    from.path().string() + ": " + std::to_string(taken.count) + " of " +
    config::count(all, "tensor") + ", SHA-256 " + from.sha256()};
  if (!taken.names.empty())
    out.push_back(taken.names);
  if (!taken.skipped.empty())
    out.push_back("drawn, not from the file: " +
                  config::join(taken.skipped, ", "));
  if (from.has_optimizer())
    out.emplace_back("the optimizer's state in the file is not used");
  return out;
}

at::Tensor empty_buffer(const models::flat_layout& layout, uint64_t count) {
  return at::empty({static_cast<int64_t>(count)},
                   models::to_aten(layout.dtype()));
}

/// A buffer of zeros, since a digest covers what lies between constants, too.
at::Tensor frozen_buffer(const models::flat_layout& layout) {
  return at::zeros({static_cast<int64_t>(layout.frozen_count())},
                   models::to_aten(layout.dtype()));
}

/// Takes the constants from the checkpoint. One that an earlier release has
/// written may lack some: those are the network's.
void fill_constants(const config::training_settings& settings,
                    const models::flat_layout& layout,
                    const models::loaded_checkpoint& from,
                    const at::Tensor& frozen) {
  std::vector<models::parameter_slot> missing;
  for (const auto& slot : layout.constants()) {
    const auto* tensor = from.model.find(slot.name);
    if (tensor == nullptr) {
      missing.push_back(slot);
      continue;
    }
    if (tensor->dtype != slot.dtype || tensor->shape != slot.shape)
      throw run_error(from.path.string() + ": tensor '" + slot.name + "' is " +
                      models::shape_text(tensor->shape) + " of " +
                      tensor->dtype + ", and that of the network " +
                      models::shape_text(slot.shape) + " of " + slot.dtype +
                      "; resume with the network that it was trained with");
    auto to = models::flat_layout::constant_in(frozen, slot);
    if (!to.empty())
      std::memcpy(to.data(), tensor->bytes.data(), to.size());
  }
  models::read_constants(settings, missing, frozen);
}

} // namespace

std::shared_ptr<const first_weights>
read_first_weights(const config::training_settings& settings, int64_t classes) {
  if (settings.init.empty())
    return nullptr;
  models::weights_file file{settings.init};
  auto skip = config::parse_key_patterns(settings.init_skip);
  auto layout = models::layout_of(settings, classes);
  auto out = std::make_shared<first_weights>();
  if (skip.empty()) {
    out->weights = {empty_buffer(layout, layout.count()),
                    frozen_buffer(layout)};
    models::read_constants(settings, layout.constants(), out->weights.frozen);
  } else {
    out->weights = models::draw_weights(settings, classes);
  }
  auto taken =
    models::take_weights(file, settings.network, layout, skip, out->weights);
  out->from = {settings.init, file.sha256(), settings.init_skip};
  out->lines = lines_of(file, taken);
  return out;
}

std::shared_ptr<const first_weights>
make_first_weights(const config::training_settings& settings, int64_t classes) {
  if (auto read = read_first_weights(settings, classes))
    return read;
  auto out = std::make_shared<first_weights>();
  out->weights = models::draw_weights(settings, classes);
  return out;
}

payload frozen_weights(const first_weights& first) {
  const auto& frozen = first.weights.frozen;
  return frozen.defined() && frozen.numel() > 0 ? to_payload(frozen)
                                                : payload{};
}

payload frozen_weights(const config::training_settings& settings,
                       int64_t classes, const models::loaded_checkpoint& from) {
  auto layout = models::layout_of(settings, classes);
  if (layout.frozen_count() == 0)
    return {};
  auto flat = frozen_buffer(layout);
  fill(layout.frozen(), layout.dtype(), {0, layout.frozen_count()}, from, flat);
  fill_constants(settings, layout, from, flat);
  return to_payload(std::move(flat));
}

} // namespace troupe
