#pragma once
// The NCCL transfers of one end of a path, or of the collective coordinator:
// makes them, and ends those that are no longer used, which takes some polls.
//
// Owned by whoever uses the transfers. Any thread may drop one; only the thread
// that polls may begin and end them.

#include "messages/transport/nccl/nccl_transfer.hpp"

#include <vector>

namespace troupe::transport {

struct nccl_terms {
  nccl::library_ptr library;
  int device = 0;
  /// True: this end asks for NCCL, and the other end makes the ids. False: it
  /// waits until it is asked.
  bool asks = false;
  nccl::patience limits{};
  double transfer = 60; ///< s for one tensor.
};

using nccl_transfer_ptr = std::shared_ptr<nccl::nccl_transfer>;

class transfer_set {
public:
  /// @param largest The largest tensor.
  transfer_set(nccl_terms terms, payload_shape largest)
    : terms_(std::move(terms)), largest_(largest) {
    // nop
  }

  /// The id of a new communicator. Throws `path_error`.
  nccl::id_bytes make_id() const;

  /// Begins to join so many ranks with this id, as one of them.
  nccl_transfer_ptr begin(const nccl::id_bytes& id, int rank, int size,
                          double now) const;

  /// Leaves a transfer, which may be null, to `end_dropped`, which ends it for
  /// this reason.
  void drop(nccl_transfer_ptr transfer, std::string reason);

  /// Ends dropped transfers as far as that is possible now. True while some are
  /// left.
  bool end_dropped(double now);

  bool has_dropped() const;

private:
  struct dropped {
    nccl_transfer_ptr transfer;
    std::string reason;
  };

  nccl_terms terms_;
  payload_shape largest_;
  mutable std::mutex mutex_;
  std::vector<dropped> dropped_;
};

} // namespace troupe::transport
