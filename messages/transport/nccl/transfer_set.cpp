#include "messages/transport/nccl/transfer_set.hpp"

#include "messages/transport/wire/socket.hpp"

#include <algorithm>
#include <utility>

namespace troupe::transport {

nccl::id_bytes transfer_set::make_id() const {
  nccl::abi::unique_id id;
  auto code = terms_.library->call().get_unique_id(&id);
  if (code != nccl::abi::result::success)
    throw path_error{"NCCL gives no id: " + terms_.library->explain(code)};
  return nccl::to_bytes(id);
}

nccl_transfer_ptr transfer_set::begin(const nccl::id_bytes& id, int rank,
                                      int size, double now) const {
  nccl::nccl_transfer_terms terms{
    id, rank, size, terms_.device, largest_, terms_.limits, terms_.transfer};
  return std::make_shared<nccl::nccl_transfer>(terms_.library, terms, now);
}

void transfer_set::drop(nccl_transfer_ptr transfer, std::string reason) {
  if (!transfer)
    return;
  std::lock_guard guard{mutex_};
  dropped_.push_back({std::move(transfer), std::move(reason)});
}

bool transfer_set::end_dropped(double now) {
  std::vector<dropped> over;
  {
    std::lock_guard guard{mutex_};
    over = dropped_;
  }
  // Without the lock, since callbacks of the transfers run.
  std::erase_if(over, [now](const dropped& each) {
    each.transfer->stop(each.reason, now);
    return each.transfer->poll(now);
  });
  std::lock_guard guard{mutex_};
  std::erase_if(dropped_, [&](const dropped& each) {
    return std::ranges::count(over, each.transfer, &dropped::transfer) > 0;
  });
  return !dropped_.empty();
}

bool transfer_set::has_dropped() const {
  std::lock_guard guard{mutex_};
  return !dropped_.empty();
}

} // namespace troupe::transport
