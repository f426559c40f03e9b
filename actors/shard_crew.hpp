#pragma once
// The other shards of a parameter server, as its lead sees them. It asks them
// and does its own part meanwhile; until they have answered it takes no other
// mail, so that with any number of shards the same happens in the same order.
// Without others all is done at once, with no message.
//
// A member of the lead's state; not thread-safe.

#include "actors/shard_order.hpp"
#include "messages/interfaces.hpp"

#include <caf/policy/select_all.hpp>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace troupe {

class shard_crew {
  // What it returns is known after its body alone: those who call it follow.
  auto ask(const shard_order_ptr& what) {
    return self_->fan_out_request<caf::policy::select_all>(
      others_, caf::infinite, order_atom_v, what);
  }

public:
  /// `on_trouble` is told when another shard could not do its part.
  shard_crew(lead_actor::pointer self, std::vector<shard_actor> others,
             std::function<void(const caf::error&)> on_trouble);

  /// Hands a gradient to all, each of which holds its part. `own` says whether
  /// the lead's part is sound; `then` is called with whether all are.
  template <class Own, class Then>
  void check(const push_id& id, const payload& gradient, Own own, Then then) {
    if (others_.empty())
      return then(own());
    auto asked = self_->fan_out_request<caf::policy::select_all>(
      others_, caf::infinite, push_atom_v, id, gradient);
    auto sound = own();
    std::move(asked).await(
      [sound, then = std::move(then)](std::vector<bool> theirs) mutable {
        then(sound && std::ranges::find(theirs, false) == theirs.end());
      },
      on_trouble_);
  }

  /// Forgets gradients.
  void drop(std::vector<push_id> which);

  /// Has all carry a step out, which `make` puts together; `own` does the
  /// lead's part, and `then` is called when all is done.
  template <class Make, class Own, class Then>
  void step(Make make, Own own, Then then) {
    if (others_.empty())
      return own(), then();
    auto asked = ask(number({0, {}, make(), {}}));
    own();
    std::move(asked).await(std::move(then), on_trouble_);
  }

  /// Has all fill in their part of the slots as they are after the steps so
  /// far. The lead goes on with its mail meanwhile.
  template <class Own, class Then>
  void save(std::vector<at::Tensor> slots, Own own, Then then) {
    if (others_.empty())
      return own(), then();
    auto asked = ask(number({0, {}, {}, std::move(slots)}));
    own();
    std::move(asked).then(std::move(then), on_trouble_);
  }

private:
  shard_order_ptr number(shard_order what);

  lead_actor::pointer self_;
  std::vector<shard_actor> others_;
  std::function<void(const caf::error&)> on_trouble_;
  uint64_t orders_ = 0; ///< Given so far.
};

} // namespace troupe
