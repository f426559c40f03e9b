#include "messages/finite.hpp"

#include "models/kernels/kernels.hpp"

namespace troupe {

namespace {

template <class T>
bool all_finite(std::span<const std::byte> bytes) {
  return models::kernels::fastest<T>().finite(
    reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
}

} // namespace

bool all_finite(std::span<const std::byte> bytes, element_type type) {
  switch (type) {
  case element_type::float32:
    return all_finite<float>(bytes);
  case element_type::float64:
    return all_finite<double>(bytes);
  default:
    return true;
  }
}

bool all_finite(const payload& numbers) {
  return numbers.finite()
           ? *numbers.finite()
           : all_finite(numbers.host_bytes(), numbers.shape().type);
}

} // namespace troupe
