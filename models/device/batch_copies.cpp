#include "models/device/batch_copies.hpp"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace troupe::models {

batch_copies::batch_copies(c10::Device where)
  : stream_(c10::impl::VirtualGuardImpl{where.type()}.getStreamFromGlobalPool(
      where)) {
  // nop
}

copied_batch batch_copies::place(const at::Tensor& inputs,
                                 const at::Tensor& targets) const {
  c10::StreamGuard guard{stream_};
  auto where = stream_.device();
  copied_batch out{inputs.to(where, /*non_blocking=*/true),
                   targets.to(where, /*non_blocking=*/true),
                   std::make_shared<c10::Event>(where.type())};
  out.arrived->record(stream_);
  return out;
}

} // namespace troupe::models
