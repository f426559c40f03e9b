#pragma once
// Both ends of a path whose gradients are summed on GPUs on their way to the
// server, and whose weights are broadcast to all workers of a synchronous
// cluster; collective_coordinator.hpp says how. Before a communicator is open,
// after it fails, and for types that NCCL does not have, tensors are sent on
// the socket as by stream_path. Owned by a link or gateway; threads as in
// path.hpp.
//
// NCCL chooses the order of sums, so the bits of a step may differ from those
// of a run over the stream.

#include "messages/transport/nccl/collective_coordinator.hpp"
#include "messages/transport/nccl/nccl_path.hpp"
#include "messages/transport/stream/stream_path.hpp"

namespace troupe::transport {

/// The end of a worker, or of an evaluator, which takes no part in collectives.
class collective_path final : public stream_path {
public:
  collective_path(socket line, const path_terms& terms, nccl_terms with);

  ~collective_path() override;

  std::string_view name() const override { return "nccl"; }

  std::optional<double> poll(double now) override;

  bool needs_polling() const override { return true; }

  troupe::gradient_stream* early_gradients() override { return nullptr; }

private:
  /// A push that was offered.
  struct offered {
    transfer_id request;
    caf::byte_buffer header;
    payload gradient;
  };

  using nccl_transfer_ptr = std::shared_ptr<nccl::nccl_transfer>;

  bool keeps(frame_kind kind, transfer_id request,
             const caf::byte_buffer& header, const payload& tensor) override;

  payload expect(const frame_head& head, std::vector<descriptor>& passed,
                 incoming& follows) override;

  bool hands_out_early(const frame_head& head) const override;

  bool takes(frame& what) override;

  void called(const collective_call& to);
  void opened(const collective_open& what);
  void over(const collective_over& what);
  void give(transfer_id request, const collective_give& what);
  void fetched(transfer_id request);
  void settled(transfer_id request);
  void hear(frame& what);
  void answer(const collective_answer& what);

  nccl_transfer_ptr meet(double now);
  bool look_at(const nccl_transfer_ptr& newest, double now);
  bool end_old(double now);
  void drop_transfer();

  nccl_terms with_;
  std::mutex mutex_;
  bool attends_ = false;
  std::optional<collective_call> called_; ///< Received, and not begun yet.
  nccl::epoch number_;                    ///< Of `transfer_`.
  nccl_transfer_ptr transfer_; ///< The newest one, while it has not ended.
  bool ready_ = false;         ///< The server was told that it is ready.
  bool open_ = false;          ///< All members are ready.
  std::vector<nccl_transfer_ptr> ending_;
  std::optional<offered> offered_; ///< Until it is answered, or fetched.
  bool heard_ = false;             ///< Of the reading thread: see `expect`.
};

/// The end of the server.
class collective_end final : public stream_path, private collective_seat {
public:
  collective_end(socket line, const path_terms& terms,
                 collective_coordinator_ptr root);

  ~collective_end() override;

  std::string_view name() const override { return "nccl"; }

  std::optional<double> poll(double now) override;

  bool needs_polling() const override { return true; }

private:
  bool keeps(frame_kind kind, transfer_id request,
             const caf::byte_buffer& header, const payload& tensor) override;
  bool takes(frame& what) override;
  void offer(const frame& what);

  void call(const collective_call& what) override;
  void open(const collective_open& what) override;
  void over(const collective_over& what) override;
  void give(transfer_id request, const collective_give& what) override;
  void fetch(transfer_id request) override;
  void hand_over(frame push) override;
  void reply(const collective_reply& what, carriage carried) override;
  void wake() override;

  collective_coordinator_ptr root_;
};

} // namespace troupe::transport
