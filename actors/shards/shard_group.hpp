#pragma once
// The shards in processes of their own, as the lead sees them. A request of a
// worker is complete when all shards have their part of it. Parts arrive
// independently, so the lead handles other messages in between. The lead's
// decisions need no answer: messages to one shard arrive in order, and whatever
// a decision refers to has already arrived there.
//
// A part of the parameter server's state, called on its thread; not
// thread-safe.

#include "actors/shards/shard_fetch.hpp"
#include "messages/interfaces.hpp"
#include "messages/transport/nccl/gpu_exchange.hpp"
#include "models/optim/exact_sum.hpp"
#include "models/optim/optimizer.hpp"

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace troupe {

class shard_group {
public:
  /// Gets why a part was refused, or `errc::none`, and the sum of the squares
  /// of the other shards' parts, where norms are watched.
  using then_checked = std::function<void(errc, const models::exact_sum&)>;

  /// Seconds in which the registrar may tell why a shard is lost.
  static constexpr double for_the_reason = 1;

  /// @param on_trouble Called when a shard does not do what it must.
  /// @param patience Seconds that a shard has to answer with a norm.
  /// @param exchange Of the lead's node, whose worker may have offered what is
  /// dropped; or null.
  shard_group(lead_actor::pointer self, uint32_t count,
              std::function<void(const caf::error&)> on_trouble,
              double patience = 60,
              transport::gpu_exchange_ptr exchange = nullptr)
    : self_(self), count_(count), on_trouble_(std::move(on_trouble)),
      patience_(patience), exchange_(std::move(exchange)) {
    // nop
  }

  /// Whether this run has shards in processes of their own.
  bool any() const { return count_ > 0; }

  /// Whether all of them are connected.
  bool complete() const { return shards_.size() == count_; }

  void begin(shard_registrar_actor registrar,
             std::vector<remote_shard_actor> shards);

  // -- requests of workers ----------------------------------------------------

  /// The lead has its part of a request. `then` is called once, when all shards
  /// have theirs or the worker has given the push up; it is never called for a
  /// pull that is given up, or if the worker leaves before.
  /// @param gradient The id of a push; its `seq` is 0 for a pull.
  /// @param own Why the lead's part cannot be used, or `errc::none`.
  void expect(const request_id& id, const push_id& gradient, errc own,
              then_checked then);

  /// Another shard reports its part.
  void note(const part_report& report);

  /// The lead refuses its part, whatever the other shards report.
  void refuse(const request_id& id, const push_id& gradient);

  /// Has the shards add up these gradients, which they are only offered, all at
  /// a time with the lead. What is asked of them for the step comes after that.
  void add_up(const shard_step& offered);

  /// The lead's part of a sum has failed.
  void sum_failed(const std::string& why);

  /// Asks for the squares of the other shards' parts of a step's mean gradient.
  /// `then` gets their sum; until it was called the lead handles no message. It
  /// is never called if a shard fails.
  void squares(const shard_step& of,
               std::function<void(const models::exact_sum&)> then);

  using then_measured =
    std::function<void(std::span<const models::parameter_squares>)>;

  /// The same for the norms that decide on the factors of a step.
  void measure(const shard_step& of, then_measured then);

  // -- decisions --------------------------------------------------------------

  void drop(const std::vector<push_id>& which);
  void step(const shard_step& order);
  void release(const request_id& id, const release_header& header);
  void leave(worker_id who, life_number life);

  /// Tells the shards that training is over.
  void finish();

  /// Tells the shards that the run is over.
  void stop(const run_end& how);

  /// Fills in the other shards' parts of the current version; `then` is called
  /// when that is done. The lead continues meanwhile. The transfer gets its
  /// number here.
  void fetch(shard_fetch fetch, std::function<void()> then);

private:
  template <class Answer, class Atom, class Then>
  void ask_all(Atom verb, const shard_step& of, Then then);

  struct open_request {
    request_id id;
    push_id gradient;
    size_t reports = 0;
    errc refused = errc::none; ///< The first refusal of a shard.
    models::exact_sum squares; ///< Of the parts that were reported.
    then_checked then;         ///< Null until the lead has its part.

    void refuse(errc why) {
      if (refused == errc::none)
        refused = why;
    }
  };

  open_request* find(const request_id& id, const push_id& gradient);
  bool decided(const request_id& id) const;
  void decide(const request_id& id);
  void look(open_request& request);
  std::optional<open_request> forget(worker_id who);
  void give_up(worker_id who);
  void drop_part(const push_id& gradient);

  template <class... Ts>
  void tell_all(const Ts&... what) {
    for (const auto& shard : shards_)
      self_->send(shard, what...);
  }

  lead_actor::pointer self_;
  uint32_t count_;
  std::function<void(const caf::error&)> on_trouble_;
  double patience_;
  transport::gpu_exchange_ptr exchange_;
  shard_registrar_actor registrar_;
  std::vector<remote_shard_actor> shards_;
  std::map<worker_id, open_request> open_;
  std::map<worker_id, request_id> decided_; ///< The last one of each worker.
  transfer_id fetches_{0};                  ///< So far.
};

} // namespace troupe
