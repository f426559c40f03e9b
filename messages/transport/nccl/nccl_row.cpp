#include "messages/transport/nccl/nccl_row.hpp"

#include "messages/transport/nccl/collective_carrier.hpp"
#include "messages/transport/nccl/pair_carrier.hpp"

#include <utility>

namespace troupe::transport {

namespace {

path_ptr near_end(socket line, const path_terms& terms, const path_means& means,
                  const proto::PathOffer& offer) {
  nccl_terms with{means.nccl, nccl_device(*means.nccl, true), true};
  if (offer.collective())
    return make_path<collective_carrier>(std::move(line), terms,
                                         std::move(with));
  return make_path<pair_carrier>(std::move(line), terms, std::move(with));
}

path_ptr far_end(socket line, const path_terms& terms,
                 const path_means& means) {
  if (means.collective)
    return make_path<seat_carrier>(std::move(line), terms, means.collective);
  return make_path<pair_carrier>(
    std::move(line), terms,
    nccl_terms{means.nccl, nccl_device(*means.nccl, false)});
}

} // namespace

int nccl_device(const nccl::library& lib, bool of_worker) {
  return lib.device().value_or(of_worker ? 1 % lib.devices() : 0);
}

path_row nccl_row() {
  path_row out;
  out.facts.name = "nccl";
  out.facts.automatic = false;
  out.facts.needs_gpu = true;
  out.facts.sums = true;
  out.facts.any_network = true;
  out.facts.instead = "stream";
  out.offered = [](const proto::PathOffer& offer) {
    return offer.nccl() && offer.stream_port() != 0;
  };
  out.possible = [](const path_means& means) {
    return means.nccl != nullptr;
  };
  out.near_end = near_end;
  out.far_end = far_end;
  return out;
}

} // namespace troupe::transport
