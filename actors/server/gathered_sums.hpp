#pragma once
// Collects the pushes whose gradients were already added up on the way (an NCCL
// reduction). Their mean contains all of them, so they are held until the last
// one is here. If one of them must not count, none of them does.
//
// A part of the parameter server's state, called on the server's thread; not
// thread-safe.

#include "messages/gradient_sums.hpp"
#include "messages/interfaces.hpp"

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {

/// A push that has not been checked yet.
struct new_push {
  push_header header;
  payload gradient;
  caf::typed_response_promise<release_header, payload> asks;
};

/// What `gathered_sums` asks of the part that accepts pushes.
class push_desk {
public:
  virtual ~push_desk() = default;

  /// Whether this life of the worker is a member.
  virtual bool knows(const push_id& id) const = 0;

  /// Whether the push would be accepted on its own.
  virtual bool is_good(const new_push& one) const = 0;

  /// Calls `work` when the server accepts pushes: now or later.
  virtual void when_ready(std::function<void()> work) = 0;

  /// Accepts a push; all others of the same sum are accepted with it.
  virtual void accept_part(new_push one) = 0;
};

class gathered_sums {
public:
  /// @param desk Outlives this.
  /// @param sums Where gradients are added up; may be null.
  gathered_sums(push_desk& desk, gradient_sums_ptr sums)
    : desk_(desk), sums_(std::move(sums)) {
    // nop
  }

  /// The sum that this push is part of, if any.
  std::optional<gradient_sum> find(const push_id& id,
                                   const payload& gradient) const {
    return sums_ ? sums_->find(id, gradient) : std::nullopt;
  }

  void accept(const gradient_sum& of, new_push push);

  /// Gives up all sums that this worker was to be part of.
  void leave(worker_id who, life_number life);

  /// The run is over: answers all pushes that wait, and from now on each new
  /// one at once.
  void close();

private:
  struct gathered {
    gradient_sum what;
    std::vector<new_push> here;
  };

  bool in_order(const gathered& sum) const;
  void hand_in(gathered sum);
  void give_up(const gathered& sum);

  push_desk& desk_;
  gradient_sums_ptr sums_;
  std::map<uint64_t, gathered> open_;
  bool closed_ = false;
};

} // namespace troupe
