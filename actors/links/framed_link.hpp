#pragma once
// The worker's or evaluator's end of a link to a parameter server in another
// process: turns requests into frames, and frames into answers. Its other end
// is a framed gateway. Both watch the peer's gateway, which stands for the
// actor connection.
//
// An actor beside the worker or evaluator; made by its session client.

#include "actors/links/frame_channel.hpp"
#include "actors/links/open_requests.hpp"

namespace troupe {

class framed_link_state {
public:
  using pointer = framed_link_actor::stateful_pointer<framed_link_state>;

  static constexpr const char* name = "troupe.framed-link";

  /// Seconds to wait, after the channel was closed, for the actor connection to
  /// end as well. If it does not, the channel is broken and the link ends with
  /// `peer_lost`; else the link ends as the gateway did.
  static constexpr double benefit_of_doubt = 1;

  /// @param expected The shape of the model's weights; no other is accepted,
  /// unless a release goes on with a fragment.
  framed_link_state(pointer self, gateway_actor gateway,
                    frame_channel_ptr channel, payload_shape expected);

  framed_link_actor::behavior_type make_behavior();

private:
  caf::result<release_header, payload> push(const push_header& header,
                                            const payload& gradient);
  caf::result<release_header, payload> pull(const pull_header& header);
  caf::result<watch_header, payload> watch(const watch_request& request);
  caf::result<module_answer> pass(transport::frame_kind kind,
                                  const module_call& call);
  void handle_frame(const transport::frame& message);
  template <class Header>
  void answer(const transport::frame& message);
  void passed(const transport::frame& message);
  void closed(const caf::error& why);
  void break_off(const caf::error& why, const caf::error& reason);

  pointer self_;
  gateway_actor gateway_;
  frame_channel_ptr channel_;
  payload_shape expected_;
  open_requests open_;
};

} // namespace troupe
