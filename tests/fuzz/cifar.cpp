#include "data/formats/cifar.hpp"

#include "tests/fuzz/targets.hpp"

#include <vector>

namespace troupe::fuzz {

bool cifar(bytes_view data) {
  data::memory_store::parts out{"x", {3, 32, 32}, 0, {}, {}};
  auto any = false;
  for (uint32_t label_bytes : {1u, 2u})
    any |= taken([&] {
      out.classes = label_bytes == 1 ? 10 : 100;
      data::parse_cifar(data, label_bytes, "x", out);
    });
  require(out.pixels.size() == out.labels.size() * 3072,
          "an image for each label");
  return any;
}

} // namespace troupe::fuzz
