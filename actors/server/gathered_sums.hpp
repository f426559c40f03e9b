#pragma once
// Pushes whose gradients were added up on their way (an NCCL reduction): they
// are gathered until all of a sum are here, for the mean holds each of them.
// When one of them is not to count, none does.
//
// A part of the server's state; not thread-safe.

#include "messages/gradient_sums.hpp"
#include "messages/interfaces.hpp"

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {

/// A push that is not looked at yet.
struct new_push {
  push_header header;
  payload gradient;
  caf::typed_response_promise<release_header, payload> asks;
};

struct gathered_sums_calls {
  /// Is this worker's life a member?
  std::function<bool(const push_id&)> knows;
  /// Would the push be taken by itself?
  std::function<bool(const new_push&)> is_good;
  /// Takes a push of a sum that counts, now or later.
  std::function<void(std::function<void()>)> when_ready;
  std::function<void(new_push)> take;
};

class gathered_sums {
public:
  /// @param sums Where gradients are added up; may be null.
  gathered_sums(gradient_sums_ptr sums, gathered_sums_calls calls)
    : sums_(std::move(sums)), calls_(std::move(calls)) {
    // nop
  }

  /// The sum that this push is part of, if any.
  std::optional<gradient_sum> find(const push_id& id,
                                   const payload& gradient) const {
    return sums_ ? sums_->find(id, gradient) : std::nullopt;
  }

  void accept(const gradient_sum& of, new_push what);

  /// Sums that this worker was to be part of are void.
  void leave(worker_id who, incarnation life);

  /// The run is over: all who wait are told, now and from now on.
  void close();

private:
  struct gathered {
    gradient_sum what;
    std::vector<new_push> here;
  };

  bool in_order(const gathered& what) const;
  void take(gathered what);
  void give_up(const gathered& what);

  gradient_sums_ptr sums_;
  gathered_sums_calls calls_;
  std::map<uint64_t, gathered> open_;
  bool closed_ = false;
};

} // namespace troupe
