#pragma once
// A parameter server shard in a process of its own. It holds a range of the
// weights, the optimiser's state for it, and the workers' requests that the
// lead has not decided on yet. Workers send it their part of a gradient and get
// its part of the weights; it reports each part to the lead and carries out the
// lead's decisions.
//
// An actor without a thread of its own, like the lead: the thread that brings a
// request runs it (actors/runtime/inline_execution.hpp).

#include "actors/runtime/exchange_front.hpp"
#include "actors/segments/module_roster.hpp"
#include "actors/shards/fragment_models.hpp"
#include "actors/shards/piece_writer.hpp"
#include "actors/shards/weights_versions.hpp"
#include "messages/interfaces.hpp"
#include "messages/transport/chunked/chunked.hpp"
#include "messages/transport/chunked/outgoing.hpp"
#include "models/optim/lanes.hpp"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe {

struct remote_shard_parts {
  shard_id rank; ///< 1 or more.
  config::training_settings settings;
  payload_shape weights; ///< The shape of its range.
  /// Of each fragment, the elements in its range; empty: there is only one.
  std::vector<uint64_t> fragments{};
  int threads = 1;      ///< Intra-op threads, if actors share one.
  models::lanes across; ///< Threads that share each pass over the weights.
  payload_memory_ptr memory = heap_memory(); ///< For versions of the weights.
  shard_registrar_actor registrar;
  module_roster_ptr modules; ///< Beside it; or null.
  /// Where it adds up gradients that are only offered; or null.
  node_exchange exchange{};
  /// Called once, when the run is over.
  std::function<void(const run_end&)> on_end;
};

class remote_shard_state {
public:
  using pointer = remote_shard_actor::stateful_pointer<remote_shard_state>;

  static constexpr const char* name = "troupe.remote-shard";

  remote_shard_state(pointer self, remote_shard_parts parts);

  remote_shard_actor::behavior_type make_behavior();

private:
  using weights_promise = caf::typed_response_promise<release_header, payload>;
  using weights_result = caf::result<release_header, payload>;

  /// A request of a worker that waits for an answer.
  struct request {
    request_id id;
    weights_promise asks;
    bool offered = false; ///< Its gradient was; so its weights are gathered.
  };

  /// A gradient, or one that is only offered.
  struct held_gradient {
    payload numbers;
    uint32_t fragment = 0;
    bool offered = false;
  };

  struct step_gradients {
    std::vector<payload> all;
    std::vector<double> shares;
    std::vector<uint32_t> fragments;
    bool have_sum = false; ///< The last one.

    mean_of mean() const { return {all, shares, fragments}; }
  };

  weights_result push(const push_header& header, const payload& part);
  weights_result pull(const pull_header& header);
  caf::error unwelcome(worker_id who, life_number life) const;
  void report(part_report part);
  weights_result hold(const request_id& id, bool offered = false);
  void close(worker_id who, errc why, const std::string& text);
  void begin(transfer_id id, const shard_state& state,
             const payload_shape& shape);
  void add_piece(const chunk& piece);
  void load(const payload& flat);
  void credit(transfer_id id, uint64_t received);
  void add_up(const shard_step& order);
  void go_on_with(const payload& sum);
  template <class Work>
  void in_order(Work work);
  template <class Answer, class Find>
  caf::result<Answer> answer_in_order(Find find);
  step_gradients gradients_of(const shard_step& order) const;
  caf::result<shard_squares> squares(const shard_step& order);
  caf::result<shard_measures> measure(const shard_step& order);
  void make(const shard_step& order);
  void release(const request_id& id, const release_header& header);
  void leave(worker_id who, life_number life);
  void send_state(transfer_id id, const state_request& request);
  void write_state(transfer_id id, const state_request& places);
  payload copy_state(std::span<const at::Tensor> slots) const;
  void end_training();

  auto to_registrar() {
    return [this](chunk&& piece) {
      self_->send(parts_.registrar, chunk_atom_v, parts_.rank,
                  std::move(piece));
    };
  }

  pointer self_;
  remote_shard_parts parts_;
  lead_actor lead_;
  fragment_models model_;
  weights_versions versions_;
  version version_;
  uint64_t first_ = 0; ///< Where its range of the parameters begins.
  std::map<worker_id, request> requests_;
  std::map<worker_id, life_number> gone_; ///< The last life that has ended.
  std::map<worker_id, push_id> last_;     ///< The last gradient of each worker.
  std::map<push_id, held_gradient> held_;
  /// Of which fragment the next gradient of each worker is.
  std::map<worker_id, uint32_t> turns_;
  bool adds_up_ = false; ///< A sum is under way, or has failed.
  payload sum_;          ///< Of the next step's offered gradients.
  version gathered_;     ///< The newest version that all have got.
  std::deque<std::function<void()>> ordered_; ///< While it adds up.
  bool over_ = false;
  std::optional<transport::chunk_receiver> arriving_;
  transfer_id arriving_id_{0};
  shard_state arriving_state_;
  transport::outgoing_payloads leaving_;
};

} // namespace troupe
