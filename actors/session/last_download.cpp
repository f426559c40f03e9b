#include "actors/session/last_download.hpp"

#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/run_is_over.hpp"
#include "actors/session/download.hpp"

#include <utility>

namespace troupe {

// The server has the weights ready once all its shards have given theirs; from
// then on the bytes must keep coming.
last_version last_download::fetch(const gateway_actor& from,
                                  const payload_shape& shape) {
  if (!from)
    return run_is_over();
  asks_ =
    self_->make_response_promise<version, std::vector<push_id>, payload>();
  self_->request(from, to_timespan(patience_), ended_atom_v)
    .then(
      attempts_.in_this_one(
        [this, from, shape](version at, const std::vector<push_id>& applied) {
          download(from, shape, at, applied);
        }),
      attempts_.in_this_one([this](const caf::error& why) { refuse(why); }));
  return *asks_;
}

void last_download::download(const gateway_actor& from,
                             const payload_shape& shape, version at,
                             const std::vector<push_id>& applied) {
  request_weights(self_, from, shape)
    .then(
      attempts_.in_this_one([this, at, applied](const payload& got) {
        if (auto asks = std::exchange(asks_, std::nullopt))
          asks->deliver(at, applied, got);
      }),
      attempts_.in_this_one([this](const caf::error& why) { refuse(why); }));
}

void last_download::refuse(const caf::error& why) {
  if (auto asks = std::exchange(asks_, std::nullopt))
    asks->deliver(why);
}

} // namespace troupe
