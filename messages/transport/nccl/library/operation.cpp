#include "messages/transport/nccl/library/operation.hpp"

namespace troupe::transport::nccl {

std::string to_string(const transfer& x) {
  auto end = " of " + std::to_string(x.bytes()) + " B ";
  auto rank = "rank " + std::to_string(x.peer);
  switch (x.kind) {
  case transfer_kind::send:
    return "send" + end + "to " + rank;
  case transfer_kind::receive:
    return "receive" + end + "from " + rank;
  case transfer_kind::reduce:
    return "reduce" + end + "to " + rank;
  case transfer_kind::broadcast:
    return "broadcast" + end + "from " + rank;
  }
  return "unknown transfer";
}

std::string_view to_string(progress x) {
  switch (x) {
  case progress::waiting:
    return "waiting";
  case progress::done:
    return "done";
  case progress::stopping:
    return "stopping";
  case progress::failed:
    return "failed";
  case progress::lost:
    return "lost";
  }
  return "unknown";
}

} // namespace troupe::transport::nccl
