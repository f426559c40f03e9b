#pragma once
// The link of a worker whose parameter server has shards in processes of their
// own: one link to each shard, which look like a single one. A gradient is cut
// into views. Where all nodes have GPUs that have met, shards are only offered
// it, and add it up with others'. The parts of an answer are mapped side by
// side where they lie in shared memory of this host, else copied into one
// buffer. Some parts of a fragment may be empty. Calls to modules go to the
// shard that they name.
//
// An actor beside the worker; made by its session client. It ends with the
// first of its links that ends, and then ends the others.

#include "actors/runtime/exchange_front.hpp"
#include "messages/interfaces.hpp"
#include "messages/payload_memory.hpp"
#include "messages/transport/wire/side_by_side.hpp"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {

struct joined_link_parts {
  struct part {
    parameter_server_actor link;
    uint64_t count = 0; ///< Elements of the weights.
    /// Of each fragment of them; empty: there is only one.
    std::vector<uint64_t> fragments{};
  };

  /// In the order of the weights. The last is the lead's, which gives the
  /// header of an answer.
  std::vector<part> parts;
  element_type type = element_type::float32;
  /// Of this node's GPU, where gradients and weights go once it is open; or
  /// null.
  node_exchange exchange{};
};

class joined_link_state {
public:
  using pointer = readable_module_actor::stateful_pointer<joined_link_state>;

  static constexpr const char* name = "troupe.joined-link";

  joined_link_state(pointer self, joined_link_parts parts);

  ~joined_link_state();

  readable_module_actor::behavior_type make_behavior();

private:
  using weights_promise = caf::typed_response_promise<release_header, payload>;
  using weights_result = caf::result<release_header, payload>;

  struct open_request {
    weights_promise asks;
    std::vector<payload> answers; ///< By part; empty until answered.
    std::optional<version> of;    ///< Version of the answers so far.
    release_header header;        ///< The lead's.
    size_t missing = 0;
  };

  template <class... Ts>
  void ask(uint64_t number, size_t part, const Ts&... request);
  weights_result push(const push_header& header, const payload& gradient);
  weights_result pull(const pull_header& header);
  uint64_t open(const weights_promise& asks);
  void collect_part(uint64_t number, size_t part, const release_header& header,
                    const payload& weights);
  void join(open_request request);
  void await_gathered(open_request request);
  bool takes(const payload& gradient) const;
  std::optional<uint32_t> fragment_in(const release_header& header) const;
  uint64_t count_in(size_t part, std::optional<uint32_t> fragment) const;
  void deliver(const open_request& request, const payload& weights);
  void refuse(uint64_t number, const caf::error& why);
  template <class Atom, class Request>
  caf::result<module_answer> pass(Atom verb, const Request& request);

  pointer self_;
  joined_link_parts parts_;
  payload_shape whole_;
  payload_pool memory_;
  transport::side_by_side views_; ///< Valid as long as the links live.
  uint32_t fragment_ = 0; ///< Of the next gradient, as in a release_header.
  uint64_t requests_ = 0; ///< So far.
  std::map<uint64_t, open_request> open_;
};

} // namespace troupe
