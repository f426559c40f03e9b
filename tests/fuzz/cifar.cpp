#include "data/cifar.hpp"

#include "tests/fuzz/target.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> pixels, labels;
  for (uint32_t label_bytes : {1u, 2u})
    fuzz::expect_complaint_or_nothing([&] {
      data::parse_cifar({data, size}, label_bytes == 1 ? 10 : 100, label_bytes,
                        "x", pixels, labels);
    });
  if (pixels.size() != labels.size() * 3072)
    std::abort();
  return 0;
}
