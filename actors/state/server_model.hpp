#pragma once
// The tensor half of the lead: versions of the weights, and its own range of
// what makes the next one. Without shards in other processes that range is all.
// Else a version begins with the lead's range, and has no other.
// No actors. Not thread-safe; one owner, but a version may be read and let go
// by any thread.

#include "actors/shards/shard_beginning.hpp"
#include "actors/shards/shard_model.hpp"
#include "actors/state/snapshot.hpp"
#include "config/text/settings.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"
#include "messages/payload.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/flat_pool.hpp"
#include "models/layout/shard_cuts.hpp"
#include "models/layout/weights_store.hpp"
#include "models/storage/checkpoint.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// Where the numbers of a network's weights lie.
models::flat_layout layout_of(const config::training_settings& settings,
                              int64_t classes);

payload_shape shape_of(const models::flat_layout& layout);

/// The shape of a network's weights.
payload_shape shape_of_weights(const config::training_settings& settings,
                               int64_t classes);

/// The weights of a checkpoint. Throws `run_error` when they are not those of
/// this network.
payload weights_of(const models::loaded_checkpoint& from,
                   const config::training_settings& settings, int64_t classes);

/// Where each of so many shards is cut out of the parameters, by rank: those of
/// ranks 1, 2, ... from the front, and the last the lead's, since the
/// statistics behind them are, too.
std::vector<models::element_range>
cut_parameters(const models::flat_layout& layout, uint32_t shards);

/// What shards of ranks 1, 2, ... begin with that live in processes of their
/// own. Throws `run_error` as the server does.
std::vector<shard_beginning>
make_beginnings(const config::training_settings& settings, int64_t classes,
                uint32_t shards, const models::loaded_checkpoint* from);

/// With whom a lead shares its work.
struct shared_work {
  uint32_t shards = 1;  ///< The lead, and those in processes of their own.
  models::lanes across; ///< Threads of this process.
};

class server_model {
public:
  /// No weights at all: versions are only counted (`--gradients none`).
  server_model() = default;

  /// Draws the first weights from the seed.
  server_model(const config::training_settings& settings, int64_t classes,
               payload_memory_ptr memory = heap_memory(),
               const shared_work& with = {});

  /// Goes on from a checkpoint. Throws `run_error` when it is not one of this
  /// network or optimiser.
  server_model(const config::training_settings& settings, int64_t classes,
               const models::loaded_checkpoint& from,
               payload_memory_ptr memory = heap_memory(),
               const shared_work& with = {});

  const std::shared_ptr<const models::flat_layout>& layout() const {
    return layout_;
  }

  bool has_weights() const { return layout_ != nullptr; }

  /// Of a version, as the lead has it, and of the gradients that it takes.
  /// Empty without weights.
  payload_shape shape() const;

  /// The newest version; shares its memory.
  payload newest() const { return newest_; }

  /// Is this the shape of a gradient of ours?
  bool fits(const payload& gradient) const {
    return gradient.shape() == shape();
  }

  /// Has the lead's part of the gradient, with the statistics behind it,
  /// neither NaN nor infinity?
  bool sound(const payload& gradient) const;

  /// Memory for the next version: that of the newest, where nobody reads it any
  /// more.
  at::Tensor next_buffer();

  /// The newest version, to be read.
  at::Tensor newest_flat() const;

  /// What the mean of the gradients is multiplied by in a step, on all shards:
  /// below 1 where it would be longer than the settings allow.
  double scale_of(std::span<const payload> gradients,
                  std::span<const double> shares) const;

  /// The lead's part of a step from the newest version into `next`, and its
  /// running statistics from those behind the gradients.
  void apply(const at::Tensor& next, std::span<const payload> gradients,
             std::span<const double> shares, double lr, double scale = 1);

  /// Makes `next`, which all parts have written to, the newest version.
  void publish(version makes, at::Tensor next);

  /// Adds weights and the optimiser's counts to a snapshot, and memory for its
  /// slots; nothing without weights. Returns that memory: what is written there
  /// before anybody else sees the snapshot is part of it.
  std::vector<at::Tensor> begin_save(snapshot& out) const;

  /// Memory for the whole of the newest version, in which the lead's part is
  /// that of the version.
  at::Tensor make_whole() const;

  /// Copies the lead's part of the slots.
  void save(std::span<const at::Tensor> slots) const { part_.save(slots); }

  /// SHA-256 of the newest weights, as summary.json has it; nothing without
  /// weights.
  std::optional<std::string> weights_sha256() const;

  /// The same of these weights, all of them.
  std::string sha256_of(const payload& whole) const;

private:
  void publish_first(const at::Tensor& whole, version id);
  at::Tensor statistics_of(const at::Tensor& flat) const;

  config::training_settings settings_;
  std::shared_ptr<const models::flat_layout> layout_;
  uint64_t first_ = 0; ///< Where in the whole the lead's versions begin.
  std::unique_ptr<models::weights_store> store_;
  std::unique_ptr<models::flat_pool> wholes_; ///< If the lead's are not.
  shard_model part_;
  payload newest_;
};

} // namespace troupe
