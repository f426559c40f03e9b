#pragma once
// Computes one segment of a network for one worker, on a thread of its own:
// either the segment of a remote module, beside the shard that owns its
// parameters, or a stage of a pipeline, beside the worker.
//
// A lease has a context here, from its first forward to its last backward pass.

#include "actors/worker/computing.hpp"
#include "messages/interfaces.hpp"
#include "models/engine/host_segment.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// What a stage computes a batch with. The stages of one owner share the
/// buffers, and each writes to the places of its own parameters only.
struct stage_context {
  lease from;
  payload weights;       ///< The owner's range of the version.
  at::Tensor gradient;   ///< The same range.
  at::Tensor statistics; ///< Of the segment's parts; changed in place.
  cancel_ptr cancel;
};

/// Which part of a network a stage computes.
struct stage_place {
  models::part_range parts;
  /// Elements of the owner's buffers; nothing: all.
  std::optional<models::element_range> range;
  /// `cpu` or `cuda:N`; empty: that of the settings.
  std::string device{};
};

class stage_state {
public:
  using pointer = stage_actor::stateful_pointer<stage_state>;

  static constexpr const char* name = "troupe.stage";

  /// @param classes Of the data set.
  stage_state(pointer self, const computing_parts& parts, int64_t classes,
              const stage_place& where);

  stage_actor::behavior_type make_behavior();

private:
  struct open_context {
    stage_context_ptr what;
    std::unique_ptr<models::host_segment> segment;
    /// Micro-batches between forward and backward, by their first sample.
    std::map<uint64_t, models::host_pass> passes;
    uint64_t samples = 0; ///< Of these.
  };

  void begin(const stage_context_ptr& context);
  void end(lease_id which);

  /// Answers with what `f` makes of the context of this call.
  template <class F>
  caf::result<module_answer> in_context(const module_call& call, F f);
  module_answer forward(open_context& at, const module_call& call);
  module_answer backward(open_context& at, const module_call& call);
  std::unique_ptr<models::host_segment> take_segment();

  pointer self_;
  computing_parts parts_;
  int64_t classes_;
  stage_place where_;
  std::map<lease_id, open_context> open_;
  std::vector<std::unique_ptr<models::host_segment>> idle_;
};

} // namespace troupe
