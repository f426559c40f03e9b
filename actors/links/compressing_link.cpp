#include "actors/links/compressing_link.hpp"

#include "actors/runtime/spawning.hpp"
#include "messages/payload_memory.hpp"

#include <utility>

namespace troupe {

namespace {

std::span<const float> numbers_of(const payload& x) {
  return {reinterpret_cast<const float*>(x.host_bytes().data()),
          x.shape().count};
}

class compressing_link_state {
public:
  using pointer =
    parameter_server_actor::stateful_pointer<compressing_link_state>;
  using weights_result = caf::result<release_header, payload>;

  static constexpr const char* name = "troupe.compressing-link";

  compressing_link_state(pointer self, compressing_link_parts parts)
    : self_(self), parts_(std::move(parts)),
      memory_(parts_.codec->compressed().bytes()), unpacker_(parts_.codec) {
    // nop
  }

  ~compressing_link_state() {
    caf::anon_send_exit(parts_.link, caf::exit_reason::user_shutdown);
  }

  parameter_server_actor::behavior_type make_behavior() {
    self_->monitor(parts_.link);
    self_->set_down_handler(
      [this](const caf::down_msg& down) { self_->quit(down.reason); });
    return {
      [this](push_atom msg, const push_header& header,
             const payload& gradient) -> weights_result {
        auto sent = compressed(header.id, gradient);
        if (parts_.codec->fragments() == 1) // Its answer says nothing new.
          return self_->delegate(parts_.link, msg, header, sent);
        return ask(header.id.worker, msg, header, sent);
      },
      [this](pull_atom msg, const pull_header& header) {
        return ask(header.worker, msg, header);
      },
      [this](watch_atom, const watch_request& request) {
        return self_->delegate(parts_.link, watch_atom_v, request);
      },
      [this](score_atom, const score& found) {
        self_->send(parts_.link, score_atom_v, found);
      },
    };
  }

private:
  /// An answer tells of which fragment the next gradient is. The first one of a
  /// life begins the error feedback of that life.
  template <class... Ts>
  weights_result ask(worker_id who, const Ts&... request) {
    auto answer = self_->make_response_promise<release_header, payload>();
    self_->request(parts_.link, caf::infinite, request...)
      .then(
        [=, this](const release_header& given, const payload& weights) mutable {
          if (parts_.feedback)
            parts_.feedback->begin(given.server, given.weights, who);
          fragment_ = given.fragment;
          answer.deliver(given, weights);
        },
        [=](const caf::error& why) mutable { answer.deliver(why); });
    return answer;
  }

  /// A gradient of another size than the model's is passed on as it is: the
  /// server decides about it.
  payload compressed(const push_id& id, const payload& gradient) {
    const auto& codec = parts_.codec->of(fragment_);
    if (!gradient || gradient.shape() != codec.plain() ||
        codec.plain().count == 0)
      return gradient;
    auto memory = memory_.take_block();
    std::span<std::byte> to{memory.get(), codec.compressed().bytes()};
    auto from = numbers_of(gradient);
    if (parts_.feedback)
      parts_.feedback->pack(
        parts_.range + fragment_ % parts_.codec->fragments(), id,
        [&](std::span<const float> before, std::span<float> lost) {
          return codec.pack(from, before, lost, to);
        });
    else
      codec.pack(from, {}, {}, to);
    auto* data = memory.get();
    payload out{codec.compressed(), std::move(memory), data};
    return parts_.unpacks ? unpacker_.unpack(out, fragment_) : out;
  }

  pointer self_;
  compressing_link_parts parts_;
  payload_pool memory_;
  transport::unpacker unpacker_;
  uint32_t fragment_ = 0; ///< Of the next gradient, as in a release_header.
};

} // namespace

parameter_server_actor spawn_compressing_link(caf::actor_system& system,
                                              compressing_link_parts parts) {
  return spawn<parameter_server_actor, compressing_link_state>(
    system, placement::scheduled, std::move(parts));
}

} // namespace troupe
