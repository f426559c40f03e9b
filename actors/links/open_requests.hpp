#pragma once
// The requests that wait for an answer at the near end of a link between
// processes, by number.
//
// A member of a link's state, called on its actor; not thread-safe.

#include "messages/interfaces.hpp"

#include <map>
#include <utility>
#include <variant>

namespace troupe {

class open_requests {
public:
  using weights_promise = caf::typed_response_promise<release_header, payload>;
  using watch_promise = caf::typed_response_promise<watch_header, payload>;
  using module_promise = caf::typed_response_promise<module_answer>;

  transfer_id add(weights_promise who) { return keep(std::move(who)); }

  transfer_id add(watch_promise who) { return keep(std::move(who)); }

  transfer_id add(module_promise who) { return keep(std::move(who)); }

  bool waits_for(transfer_id id, const release_header&) const {
    return holds<weights_promise>(id);
  }

  bool waits_for(transfer_id id, const watch_header&) const {
    return holds<watch_promise>(id);
  }

  bool waits_for_module(transfer_id id) const {
    return holds<module_promise>(id);
  }

  /// @pre waits_for_module(id)
  void answer(transfer_id id, module_answer&& answer) {
    std::get<module_promise>(take_promise(id)).deliver(std::move(answer));
  }

  /// @pre waits_for(id, header)
  void answer(transfer_id id, const release_header& header,
              const payload& weights) {
    std::get<weights_promise>(take_promise(id)).deliver(header, weights);
  }

  /// @pre waits_for(id, header)
  void answer(transfer_id id, const watch_header& header,
              const payload& weights) {
    std::get<watch_promise>(take_promise(id)).deliver(header, weights);
  }

  /// Has no effect on a number that nobody waits for.
  void refuse(transfer_id id, const caf::error& why) {
    if (open_.contains(id))
      std::visit([&](auto who) { who.deliver(why); }, take_promise(id));
  }

  void refuse_all(const caf::error& why) {
    while (!open_.empty())
      refuse(open_.begin()->first, why);
  }

private:
  using promise = std::variant<weights_promise, watch_promise, module_promise>;

  transfer_id keep(promise who) {
    last_ = last_.next();
    open_.emplace(last_, std::move(who));
    return last_;
  }

  template <class Promise>
  bool holds(transfer_id id) const {
    auto found = open_.find(id);
    return found != open_.end() &&
           std::holds_alternative<Promise>(found->second);
  }

  promise take_promise(transfer_id id) {
    return std::move(open_.extract(id).mapped());
  }

  transfer_id last_{0};
  std::map<transfer_id, promise> open_;
};

} // namespace troupe
