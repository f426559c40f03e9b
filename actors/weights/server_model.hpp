#pragma once
// The tensor half of the lead: versions of the weights, and the lead's own
// range of the optimiser. Without shards in other processes that range is
// everything. With them, a version has only the lead's range.
//
// On a GPU (the settings' device) versions and optimiser lie there, and steps
// run on its default stream; gradients that arrive are placed there.
//
// Owned by the parameter server. No actors. Not thread-safe, except that any
// thread may read and release a version.

#include "actors/shards/fragment_models.hpp"
#include "actors/shards/shard_beginning.hpp"
#include "actors/shards/weights_versions.hpp"
#include "actors/weights/snapshot.hpp"
#include "config/text/settings.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"
#include "messages/payload.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/flat_pool.hpp"
#include "models/layout/segments.hpp"
#include "models/layout/shard_cuts.hpp"
#include "models/network.hpp"
#include "models/storage/checkpoint.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

payload_shape shape_of(const models::flat_layout& layout);

/// The shape of a network's weights.
payload_shape shape_of_weights(const config::training_settings& settings,
                               int64_t classes);

/// What is trained of the weights of a checkpoint. Throws `run_error` when they
/// belong to another network.
payload weights_of(const models::loaded_checkpoint& from,
                   const config::training_settings& settings, int64_t classes);

/// The same with the average of the weights in the place of the weights, where
/// the checkpoint has one; else nothing. The checkpoint must have been read as
/// a whole.
payload average_of(const models::loaded_checkpoint& from,
                   const config::training_settings& settings, int64_t classes);

/// How the parameters are cut into shards, by rank. Ranks 1, 2, ... come from
/// the front, and the lead has the end, since it also has the statistics behind
/// it. Where modules have owners, the ranges are those of the owners.
std::vector<models::element_range>
cut_parameters(const models::flat_layout& layout, uint32_t shards);

/// What the shards of ranks 1, 2, ..., in processes of their own, begin with.
/// @param from The checkpoint to go on from; or null.
/// @param first The first weights of the whole, if there is no checkpoint.
shard_beginnings
make_beginnings(const config::training_settings& settings, int64_t classes,
                uint32_t shards,
                std::shared_ptr<const models::loaded_checkpoint> from,
                const at::Tensor& first);

/// How the lead's work is shared.
struct shared_work {
  uint32_t shards = 1;        ///< The lead and the shards in other processes.
  models::lanes across;       ///< Threads in this process.
  bool remote_readers = true; ///< Other processes read the weights.
};

class server_model {
public:
  using layout_ptr = std::shared_ptr<const models::flat_layout>;

  /// No weights at all: versions are only counted (`--gradients none`).
  server_model() = default;

  /// @param first The first weights, in a flat buffer of the network's layout;
  /// undefined: they are drawn from the seed.
  server_model(const config::training_settings& settings, int64_t classes,
               payload_memory_ptr memory = heap_memory(),
               const shared_work& with = {}, const at::Tensor& first = {});

  /// Continues from a checkpoint. Throws `run_error` when it belongs to another
  /// network or optimiser.
  server_model(const config::training_settings& settings, int64_t classes,
               const models::loaded_checkpoint& from,
               payload_memory_ptr memory = heap_memory(),
               const shared_work& with = {});

  const layout_ptr& layout() const { return layout_; }

  bool has_weights() const { return layout_ != nullptr; }

  /// Takes the weights that are not trained, for checkpoints and digests.
  /// Without this call all are trained.
  void keep_frozen(payload tensor) { frozen_ = std::move(tensor); }

  /// The shape of a version, as the lead has it, and of the gradients that it
  /// takes. Empty without weights.
  payload_shape shape() const;

  /// The shape of one fragment of it: that of gradients, where workers
  /// exchange fragments.
  payload_shape shape(uint32_t fragment) const;

  /// The newest version; shares its memory.
  payload newest() const { return versions_ ? versions_->newest() : payload{}; }

  /// What a worker gets of the newest version: fragment_models::released.
  payload released(uint32_t pushes, bool goes_on) const {
    return part_.released(newest(), pushes, goes_on);
  }

  /// Whether the gradient has the right shape.
  bool fits(const payload& gradient, uint32_t fragment = 0) const {
    return gradient.shape() == shape(fragment);
  }

  /// The same gradient where the weights are.
  payload place(const payload& gradient) const {
    return versions_ ? versions_->place(gradient) : gradient;
  }

  /// Looks at the lead's part of a gradient. It is sound if it has neither NaN
  /// nor infinity; the statistics behind it may have some where the newest
  /// version has, too.
  gradient_facts look_at(const payload& gradient, uint32_t fragment = 0) const;

  /// Memory for the next version: that of the newest one if nobody reads it any
  /// more, else another buffer.
  at::Tensor next_buffer();

  /// The newest version as a tensor, for reading only.
  at::Tensor newest_flat() const;

  /// Whether the norm of a step's mean gradient is limited.
  bool clips() const { return settings_.clip_norm && has_weights(); }

  /// The squares of the lead's part of a step's mean gradient.
  models::exact_sum squares(const mean_of& mean) const {
    return part_.squares(mean);
  }

  /// The factor for a mean gradient with these squares, on all shards: below 1
  /// where its norm would exceed the limit of the settings.
  double scale_of(const models::exact_sum& squares) const;

  /// Whether each parameter's step has a factor of its own.
  bool has_factors() const { return part_.has_factors(); }

  /// The lead's part of the norms that decide on these factors; begins a step.
  std::vector<models::parameter_squares> measure(const mean_of& mean,
                                                 double scale) {
    return part_.measure(newest_flat(), mean, scale);
  }

  /// The factors that these parts of all shards make.
  /// Throws `run_error` if one names a parameter that the network
  /// does not have.
  std::vector<double>
  factors_of(std::span<const models::parameter_squares> all) const;

  /// The lead's part of a step from the newest version into `next`. Its running
  /// statistics come from those behind the gradients.
  void apply(const at::Tensor& next, const mean_of& mean,
             const step_terms& with);

  /// Makes `next`, which all parts have written to, the newest version.
  void publish(version makes, at::Tensor next);

  /// All of a step: the lead's part of the next version from these gradients,
  /// which are released before the version is published.
  void step(version makes, std::vector<payload> gradients,
            std::span<const double> shares, const step_terms& with,
            std::span<const uint32_t> fragments = {});

  /// Adds the weights, the optimiser's counts and the names of its slots to a
  /// snapshot; does nothing without weights.
  void describe(snapshot& out) const;

  /// The same, with the slots of a model that is in this process as a whole.
  void save(snapshot& out) const;

  /// The same with the files of a checkpoint in `folder`, into which the lead's
  /// part is written. Returns the places of the others. Throws `run_error`.
  state_request draft(snapshot& out, const std::filesystem::path& folder) const;

  /// Whether an average of the weights is kept.
  bool averages() const {
    return has_weights() && settings_.ema_decay > 0 && part_.steps() > 0;
  }

  /// Memory for the whole newest version, with the lead's part filled in.
  at::Tensor make_whole() const;

  /// The same for the average of the weights, with the statistics of the newest
  /// version. @pre averages()
  at::Tensor make_whole_average() const;

  /// Whether the host can read the newest version: not on a GPU that has
  /// failed.
  bool is_readable() const;

  /// SHA-256 of the newest weights, as in summary.json; nothing without
  /// weights that can be read.
  std::optional<std::string> weights_sha256() const;

private:
  /// Without a first version.
  server_model(const config::training_settings& settings, layout_ptr layout,
               payload_memory_ptr memory, const shared_work& with);

  /// The lead's range of the whole, with the statistics.
  models::element_range own_range() const {
    return {first_, layout_->count() - first_};
  }

  at::Tensor statistics_of(const at::Tensor& flat) const;
  std::optional<at::Tensor> statistics_in(const payload& gradient,
                                          uint32_t fragment) const;

  config::training_settings settings_;
  c10::Device device_ = c10::kCPU;
  layout_ptr layout_;
  uint64_t first_ = 0; ///< Where the lead's range begins in the whole.
  std::unique_ptr<weights_versions> versions_;
  std::unique_ptr<models::flat_pool> wholes_; ///< For evaluators, if need be.
  fragment_models part_;
  payload frozen_;
};

} // namespace troupe
