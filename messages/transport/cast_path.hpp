#pragma once
// A stream whose gradients are added up on GPUs on their way to the server, and
// whose weights come from there in one broadcast to all workers of a
// synchronous cast: the two ends of it. What leads to that, and what becomes of
// it, is said in cast_root.hpp. Until a communicator is open, when it fails,
// and for what NCCL has no type for, tensors take the socket; the path lives
// on.
//
// Sums are in an order that NCCL chooses: the bits of a step may be others than
// over the stream.

#include "messages/transport/cast_root.hpp"
#include "messages/transport/nccl_path.hpp"
#include "messages/transport/stream_path.hpp"

namespace troupe::transport {

/// Of a worker, or of an evaluator, which takes no part in casts.
class cast_path final : public stream_path {
public:
  cast_path(socket line, const path_terms& terms, nccl_terms with);

  ~cast_path() override;

  std::string_view name() const override { return "nccl"; }

  std::optional<double> poll(double now) override;

  bool needs_polling() const override { return true; }

  troupe::gradient_outlet* outlet() override { return nullptr; }

private:
  /// A push that was offered.
  struct offered {
    transfer_id request;
    caf::byte_buffer header;
    payload gradient;
  };

  using ferry_ptr = std::shared_ptr<nccl::ferry>;

  bool keeps(frame_kind kind, transfer_id request,
             const caf::byte_buffer& header, const payload& tensor) override;

  payload expect(const frame_head& head, std::vector<descriptor>& passed,
                 incoming& follows) override;

  bool hands_out_early(const frame_head& head) const override;

  bool takes(frame& what) override;

  void called(const cast_call& to);
  void opened(const cast_open& what);
  void over(const cast_over& what);
  void give(transfer_id request, const cast_give& what);
  void fetched(transfer_id request);
  void settled(transfer_id request);
  void hear(frame& what);
  void answer(const cast_answer& what);

  ferry_ptr meet(double now);
  bool look_at(const ferry_ptr& newest, double now);
  bool end_old(double now);
  void drop_ferry();

  nccl_terms with_;
  std::mutex mutex_;
  bool attends_ = false;
  std::optional<cast_call> called_; ///< And not begun.
  nccl::epoch number_;              ///< Of `ferry_`.
  ferry_ptr ferry_;                 ///< The newest one, while it has not ended.
  bool ready_ = false;              ///< The server knows that it is.
  bool open_ = false;               ///< And so are all.
  std::vector<ferry_ptr> ending_;
  std::optional<offered> offered_; ///< Until it is answered, or fetched.
  bool heard_ = false;             ///< Of whoever reads: see `expect`.
};

/// Of the server.
class cast_end final : public stream_path, private cast_seat {
public:
  cast_end(socket line, const path_terms& terms, cast_root_ptr root);

  ~cast_end() override;

  std::string_view name() const override { return "nccl"; }

  std::optional<double> poll(double now) override;

  bool needs_polling() const override { return true; }

private:
  bool keeps(frame_kind kind, transfer_id request,
             const caf::byte_buffer& header, const payload& tensor) override;
  bool takes(frame& what) override;
  void offer(const frame& what);

  void call(const cast_call& what) override;
  void open(const cast_open& what) override;
  void over(const cast_over& what) override;
  void give(transfer_id request, const cast_give& what) override;
  void fetch(transfer_id request) override;
  void hand_over(frame push) override;
  void reply(const cast_reply& what, carriage carried) override;
  void wake() override;

  cast_root_ptr root_;
};

} // namespace troupe::transport
