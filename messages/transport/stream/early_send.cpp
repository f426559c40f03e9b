#include "messages/transport/stream/early_send.hpp"

#include <utility>

namespace troupe::transport {

using config::overlap_rule;

// -- out ----------------------------------------------------------------------

pieces_out::pieces_out(overlap_rule rule, payload_shape shape)
  : rule_(rule), shape_(shape), on_(rule == overlap_rule::on) {
  // nop
}

void pieces_out::begin(const payload& tensor) {
  std::optional<current> before; // Let go after the lock.
  std::lock_guard guard{mutex_};
  before = std::exchange(current_, std::nullopt);
  ++number_;
  if (on_ && tensor.shape() == shape_)
    current_ = current{tensor, shape_.bytes()};
}

auto pieces_out::ready(uint64_t from) -> std::optional<piece> {
  std::lock_guard guard{mutex_};
  if (!current_ || from >= current_->left)
    return std::nullopt;
  auto bytes = current_->left - from;
  if (bytes < bucket_bytes && from > 0)
    return std::nullopt;
  const auto& whole = current_->tensor;
  payload_shape shape{shape_.type, bytes / size_of(shape_.type)};
  return piece{number_, from,
               payload{shape, whole.owner(), whole.host_bytes().data() + from}};
}

void pieces_out::sent(const piece& part) {
  std::lock_guard guard{mutex_};
  if (current_ && part.number == number_)
    current_->left = part.offset;
}

void pieces_out::computed(double seconds, double on_the_way) {
  std::lock_guard guard{mutex_};
  auto took = on_the_way - std::exchange(on_the_way_, on_the_way);
  if (rule_ == overlap_rule::automatic)
    on_ = took > small_share * seconds;
}

bool pieces_out::on() const {
  std::lock_guard guard{mutex_};
  return on_;
}

std::optional<uint64_t> pieces_out::take_number(const payload& tensor) {
  std::optional<current> gone; // Let go after the lock.
  std::lock_guard guard{mutex_};
  gone = std::exchange(current_, std::nullopt);
  if (!gone || gone->left > 0 || !gone->tensor.is_same(tensor))
    return std::nullopt;
  return number_;
}

// -- in -----------------------------------------------------------------------

bool pieces_in::begins(const frame_head& piece) {
  if (memory_ && piece.region == number_)
    return false;
  memory_.reset();
  return true;
}

void pieces_in::begin(const frame_head& piece,
                      std::shared_ptr<std::byte> memory) {
  number_ = piece.region;
  memory_ = std::move(memory);
  left_ = shape_.bytes();
  finite_ = true;
}

std::span<std::byte> pieces_in::place(const frame_head& piece) {
  auto bytes = piece.shape.bytes();
  if (piece.carried != carriage::follows || piece.header_bytes != 0 ||
      piece.shape.type != shape_.type || bytes == 0 || bytes > left_ ||
      piece.offset != left_ - bytes)
    throw path_error{"a piece of a tensor that is out of place"};
  left_ = piece.offset;
  return {memory_.get() + piece.offset, static_cast<size_t>(bytes)};
}

void pieces_in::look_at(std::optional<bool> finite) {
  if (finite_)
    finite_ = finite ? std::optional{*finite_ && *finite} : std::nullopt;
}

payload pieces_in::take_payload(uint64_t number) {
  if (!memory_ || number != number_ || left_ > 0)
    throw path_error{"a tensor that should have come ahead has not"};
  auto* data = memory_.get();
  payload out{shape_, std::exchange(memory_, nullptr), data};
  if (finite_)
    out.know_finite(*finite_);
  return out;
}

} // namespace troupe::transport
