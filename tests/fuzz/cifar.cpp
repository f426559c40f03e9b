#include "data/formats/cifar.hpp"

#include "tests/fuzz/targets.hpp"

#include <vector>

namespace troupe::fuzz {

bool cifar(bytes_view data) {
  std::vector<uint8_t> pixels, labels;
  auto any = false;
  for (uint32_t label_bytes : {1u, 2u})
    any |= taken([&] {
      data::parse_cifar(data, label_bytes == 1 ? 10 : 100, label_bytes, "x",
                        pixels, labels);
    });
  require(pixels.size() == labels.size() * 3072, "an image for each label");
  return any;
}

} // namespace troupe::fuzz
