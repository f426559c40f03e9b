#include "models/exchange/weights_file.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/support/zip_archive.hpp"

#include <string>

namespace troupe::fuzz {

namespace {

/// An archive that is right around a pickle that may not be.
std::string around(bytes_view pickle) {
  return testing::torch_file(std::string{text_of(pickle)},
                             {std::string(24, '\1'), std::string(64, '\2')});
}

void touch_all(const models::weights_file& found, size_t size) {
  size_t numbers = 0;
  for (const auto& [key, tensor] : found.tensors()) {
    require(tensor.bytes.size() <= size, "a tensor is no larger than its file");
    for (auto each : tensor.bytes)
      numbers += std::to_integer<size_t>(each);
  }
  require(numbers != static_cast<size_t>(-1), "all of it can be read");
}

} // namespace

// The first byte: whether what follows is a whole file or the pickle in one.
bool weights(bytes_view data) {
  auto is_file = take_number<uint8_t>(data) == 0;
  auto content = is_file ? std::string{text_of(data)} : around(data);
  memory_file file{
    {reinterpret_cast<const uint8_t*>(content.data()), content.size()}};
  return taken(
    [&] { touch_all(models::weights_file{file.path()}, content.size()); });
}

} // namespace troupe::fuzz
