#include "messages/payload.hpp"

#include "messages/payload_memory.hpp"

#include <utility>

namespace troupe {

payload::payload(payload_shape shape, std::shared_ptr<const void> owner,
                 const std::byte* data, arrival_ptr arriving)
  : shape_(shape), owner_(std::move(owner)), data_(data),
    arriving_(std::move(arriving)) {
  // nop
}

payload::payload(payload_shape shape,
                 std::shared_ptr<const device_memory> there)
  : shape_(shape), data_(there->address()), on_device_(true) {
  owner_ = std::move(there);
}

std::span<const std::byte> payload::copy_of_device() const {
  auto first = static_cast<size_t>(data_ - device()->address());
  return device()->host_bytes().subspan(first, shape_.bytes());
}

std::string to_string(const payload& x) {
  if (!x)
    return "payload(none)";
  constexpr const char* kinds[] = {"", "float32", "float64", "byte"};
  return "payload(" + std::to_string(x.shape().count) + " x " +
         kinds[static_cast<size_t>(x.shape().type)] + ")";
}

payload_buffer::payload_buffer(payload_shape shape)
  : shape_(shape),
    data_(allocate_block(static_cast<size_t>(shape.bytes()), 64)) {
  // nop
}

payload payload_buffer::seal() && {
  auto* data = data_.get();
  return {shape_, std::move(data_), data};
}

} // namespace troupe
