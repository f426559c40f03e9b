#pragma once
// The near half of a link whose tensors have a path of their own: turns the
// requests of a worker or an evaluator into frames, and frames into answers.
// Its far half is a framed gateway; the gateway that both know stands for the
// actor connection.

#include "actors/links/open_requests.hpp"
#include "actors/links/path_half.hpp"

namespace troupe {

class framed_link_state {
public:
  using pointer = framed_link_actor::stateful_pointer<framed_link_state>;

  static constexpr const char* name = "troupe.framed-link";

  /// s that the connection has to end, too, before a closed path counts as a
  /// broken one: then the link ends with `peer_lost`, else as the gateway did.
  static constexpr double benefit_of_doubt = 1;

  /// `expected` is the shape of the model's weights: nothing else is taken.
  framed_link_state(pointer self, gateway_actor gateway,
                    transport::path_ptr way, payload_shape expected);

  framed_link_actor::behavior_type make_behavior();

private:
  caf::result<release_header, payload> push(const push_header& header,
                                            const payload& gradient);
  caf::result<release_header, payload> pull(const pull_header& header);
  caf::result<watch_header, payload> watch(version after);
  void take(const transport::frame& what);
  template <class Header>
  void answer(const transport::frame& what);
  void closed(const caf::error& why);
  void break_off(const caf::error& why, const caf::error& reason);

  pointer self_;
  gateway_actor gateway_;
  path_half way_;
  payload_shape expected_;
  open_requests open_;
};

} // namespace troupe
