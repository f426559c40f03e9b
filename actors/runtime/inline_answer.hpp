#pragma once
// Answers a request by inline execution. Called by a detached actor, on its own
// thread.

#include "actors/runtime/inline_execution.hpp"

#include <caf/expected.hpp>
#include <caf/result.hpp>

#include <utility>

namespace troupe {

/// Answers the current request, and runs the actors that the answer makes
/// ready: this thread has nothing else to do.
template <class T, class Self>
caf::result<T> answer_inline(Self& self, caf::expected<T> result) {
  auto promise = self.template make_response_promise<T>();
  run_inline(self.system(), [&] { promise.deliver(std::move(result)); });
  return promise;
}

} // namespace troupe
