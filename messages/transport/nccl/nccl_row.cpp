#include "messages/transport/nccl/nccl_row.hpp"

#include "messages/transport/nccl/pair_carrier.hpp"

#include <utility>

namespace troupe::transport {

path_row nccl_row() {
  path_row out;
  out.facts.name = "nccl";
  out.facts.needs_gpu = true;
  out.facts.instead = "stream";
  out.offered = [](const proto::PathOffer& offer) {
    return !offer.gpu().empty() && offer.stream_port() != 0;
  };
  out.possible = [](const path_means& means) {
    return means.gpus != nullptr;
  };
  out.trouble = [](const path_means& means, const proto::PathOffer& offer,
                   uint64_t) -> std::optional<std::string> {
    if (means.gpus->gpu() != offer.gpu())
      return std::nullopt;
    return "the other end has the same GPU";
  };
  out.remedy = "give each process a GPU of its own";
  out.near_end = [](socket line, const path_terms& terms,
                    const path_means& means) {
    return make_path<pair_carrier>(std::move(line), terms,
                                   pair_terms{means.gpus, true});
  };
  // A peer that takes the stream does not ask for NCCL: then this end is the
  // stream's.
  out.far_end = [](socket line, const path_terms& terms,
                   const path_means& means) {
    return make_path<pair_carrier>(std::move(line), terms,
                                   pair_terms{means.gpus, false});
  };
  return out;
}

} // namespace troupe::transport
