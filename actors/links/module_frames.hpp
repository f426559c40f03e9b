#pragma once
// Calls to remote modules, and their answers, as frames: the activations and
// the running statistics behind them are one tensor. Free functions;
// thread-safe.

#include "messages/segment_values.hpp"
#include "messages/transport/wire/frame.hpp"

#include <utility>

namespace troupe {

/// Header and tensor of a call. Copies activations that have statistics behind
/// them, and nothing else.
std::pair<transport::pass_header, payload> to_frame(const module_call& call);

std::pair<transport::passed_header, payload>
to_frame(const module_answer& answer);

/// Shares the tensor's memory. @throws path_error if the parts do not fit it.
module_call to_call(const transport::pass_header& header,
                    const payload& tensor);

module_answer to_answer(const transport::passed_header& header,
                        const payload& tensor);

} // namespace troupe
