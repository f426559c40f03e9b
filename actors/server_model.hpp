#pragma once
// The tensor half of a parameter server shard: versions of the weights and the
// optimiser that makes the next one. No actors. Not thread-safe; one owner, but
// a version may be read and let go by any thread.

#include "actors/snapshot.hpp"
#include "config/settings.hpp"
#include "messages/error.hpp"
#include "messages/ids.hpp"
#include "messages/payload.hpp"
#include "models/checkpoint.hpp"
#include "models/flat_layout.hpp"
#include "models/optimizer.hpp"
#include "models/weights_store.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace troupe {

/// Where the numbers of a network's weights lie.
models::flat_layout layout_of(const config::training_settings& settings,
                              int64_t classes);

/// The shape of a network's weights.
payload_shape shape_of_weights(const config::training_settings& settings,
                               int64_t classes);

/// The weights of a checkpoint. Throws `run_error` when they are not those of
/// this network.
payload weights_of(const models::loaded_checkpoint& from,
                   const config::training_settings& settings, int64_t classes);

class server_model {
public:
  /// No weights at all: versions are only counted (`--gradients none`).
  server_model() = default;

  /// Draws the first weights from the seed.
  server_model(const config::training_settings& settings, int64_t classes,
               payload_memory_ptr memory = heap_memory());

  /// Goes on from a checkpoint. Throws `run_error` when it is not one of this
  /// network or optimiser.
  server_model(const config::training_settings& settings, int64_t classes,
               const models::loaded_checkpoint& from,
               payload_memory_ptr memory = heap_memory());

  const std::shared_ptr<const models::flat_layout>& layout() const {
    return layout_;
  }

  bool has_weights() const { return layout_ != nullptr; }

  /// Empty without weights.
  payload_shape shape() const;

  /// The newest version; shares its memory.
  payload newest() const { return newest_; }

  /// May this gradient be applied? `wrong_size` or `not_finite` if not.
  errc check(const payload& gradient) const;

  /// One step: the mean of the gradients, weighted by samples and summed in
  /// this order, through the optimiser into the next version; and its running
  /// statistics from those behind the gradients.
  void apply(version makes, std::span<const payload> gradients,
             std::span<const uint64_t> samples);

  /// Adds weights, optimiser slots (copied) and their counts to a snapshot;
  /// nothing without weights.
  void save(snapshot& out) const;

  /// SHA-256 of the newest weights, as summary.json has it; nothing without
  /// weights.
  std::optional<std::string> weights_sha256() const;

private:
  void publish(version id, at::Tensor flat);

  config::training_settings settings_;
  std::shared_ptr<const models::flat_layout> layout_;
  std::unique_ptr<models::weights_store> store_;
  std::unique_ptr<models::optimizer> optimizer_;
  payload newest_;
};

} // namespace troupe
