#pragma once
// A path whose tensors go from GPU to GPU: frames and headers use the socket,
// numbers use NCCL, on two communicators of two ranks, one for each direction.
// Before both are ready, and for types that NCCL does not have, tensors use the
// socket too. When NCCL fails, the path ends. Owned by a link or gateway;
// threads as in path.hpp.
//
// At both ends tensors lie in host memory, so each is copied to the device of
// the sender and from that of the receiver.

#include "messages/transport/nccl/nccl_transfer.hpp"
#include "messages/transport/stream/stream_path.hpp"

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

class nccl_path final : public stream_path {
public:
  nccl_path(socket line, const path_terms& terms, nccl_terms with);

  ~nccl_path() override;

  std::string_view name() const override { return "nccl"; }

  std::optional<double> poll(double now) override;

  bool needs_polling() const override { return true; }

  troupe::gradient_stream* early_gradients() override { return nullptr; }

  /// Whether tensors of this shape would be sent over NCCL now.
  bool is_open(const payload_shape& shape) const;

private:
  /// The ids of the two communicators.
  struct ids {
    nccl::id_bytes gradients{}, weights{};
  };

  void place(frame_head& head, const payload& tensor, outgoing& out) override;

  payload expect(const frame_head& head, std::vector<descriptor>& passed,
                 incoming& follows) override;

  bool hands_out_early(const frame_head& head) const override;

  bool takes(frame& what) override;

  void answer_call();
  nccl::id_bytes make_id() const;
  void meet(const ids& where);
  std::shared_ptr<nccl::nccl_transfer> nccl_transfer(bool leaves) const;
  void make_transfers(double now);

  nccl_terms with_;
  mutable std::mutex mutex_;
  std::optional<ids> called_; ///< Communicators not yet begun.
  std::shared_ptr<nccl::nccl_transfer> leaving_, coming_;
};

} // namespace troupe::transport
