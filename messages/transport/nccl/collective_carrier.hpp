#pragma once
// Both ends of a path whose gradients are summed on GPUs on their way to the
// server, and whose weights are broadcast to all workers of a synchronous
// cluster; collective_coordinator.hpp says how. Before a communicator is open,
// after it fails, and for types that NCCL does not have, tensors are sent on
// the socket as by stream_carrier. Owned by their paths; threads as in
// tensor_carrier.hpp.
//
// NCCL chooses the order of sums, so the bits of a step may differ from those
// of a run over the stream.

#include "messages/transport/nccl/collective_coordinator.hpp"
#include "messages/transport/stream/stream_carrier.hpp"

namespace troupe::transport {

/// The end of a worker, or of an evaluator, which takes no part in collectives.
class collective_carrier final : public tensor_carrier {
public:
  collective_carrier(frame_line& line, const path_terms& terms,
                     nccl_terms with);

  std::string_view name() const override { return "nccl"; }

  outgoing_tensor place(frame_head& head, const payload& tensor) override {
    return stream_.place(head, tensor);
  }

  incoming_tensor expect(const frame_head& head,
                         std::vector<descriptor>& files) override;

  bool keep_back(const frame& message) override;

  bool intercept(frame& received) override;

  bool needs_polling() const override { return true; }

  std::optional<double> poll(double now) override;

private:
  void accept_call(const collective_call& call);
  void open(const collective_open& news);
  void end(const collective_over& news);
  void give(transfer_id request, const collective_give& order);
  void send_offered(transfer_id request);
  void forget_offered(transfer_id request);
  void hear(frame& release);
  void answer(const collective_answer& news);

  nccl_transfer_ptr begin_called(double now);
  bool poll_newest(const nccl_transfer_ptr& newest, double now);
  void drop_transfer();

  frame_line& line_;
  stream_carrier stream_;
  const payload_shape gradient_;
  std::mutex mutex_;
  bool attends_ = false;
  std::optional<collective_call> called_; ///< Received, and not begun yet.
  nccl::epoch number_;                    ///< Of `transfer_`.
  bool ready_ = false;           ///< The server was told that it is ready.
  bool open_ = false;            ///< All members are ready.
  std::optional<frame> offered_; ///< A push, until it is answered or sent.
  bool heard_ = false;           ///< Of the reading thread: see `expect`.
  nccl_transfer_ptr transfer_;   ///< The newest one, while it has not ended.
  transfer_set transfers_;
};

/// The end of the server.
class seat_carrier final : public tensor_carrier {
public:
  seat_carrier(frame_line& line, const path_terms& terms,
               collective_coordinator_ptr root);

  ~seat_carrier() override;

  std::string_view name() const override { return "nccl"; }

  outgoing_tensor place(frame_head& head, const payload& tensor) override {
    return stream_.place(head, tensor);
  }

  incoming_tensor expect(const frame_head& head,
                         std::vector<descriptor>& files) override {
    return stream_.expect(head, files);
  }

  bool keep_back(const frame& message) override;

  bool intercept(frame& received) override;

  bool needs_polling() const override { return true; }

  std::optional<double> poll(double now) override;

private:
  frame_line& line_;
  stream_carrier stream_;
  collective_coordinator_ptr root_;
};

} // namespace troupe::transport
