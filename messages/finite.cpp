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

bool all_finite(const payload& numbers) {
  switch (numbers.shape().type) {
  case element_type::float32:
    return all_finite<float>(numbers.bytes());
  case element_type::float64:
    return all_finite<double>(numbers.bytes());
  default:
    return true;
  }
}

} // namespace troupe
