// How long it takes to compress and restore a gradient.

#include "messages/transport/compression/compression.hpp"

#include "bench/topics.hpp"

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace troupe::bench {

namespace {

constexpr uint64_t count = 11'173'962; // ResNet-18.

std::vector<float> random_gradient() {
  std::mt19937 random{1};
  std::normal_distribution<float> normal{0, 0.01F};
  std::vector<float> out(count);
  for (auto& x : out)
    x = normal(random);
  return out;
}

/// A codec with all the memory that a worker and its server need for it.
struct packer {
  explicit packer(const char* how)
    : name(how), codec(config::parse_compression(how), count, 0),
      compressed(codec.compressed().bytes()), back(count) {
    if (codec.how().has_error_feedback()) {
      error_feedback.resize(count);
      lost.resize(count);
    }
  }

  void pack(const std::vector<float>& gradient) {
    codec.pack(gradient, error_feedback, lost, compressed);
    std::swap(error_feedback, lost);
  }

  void unpack() { codec.unpack(compressed, back); }

  std::string name;
  transport::gradient_codec codec;
  std::vector<std::byte> compressed;
  std::vector<float> back, error_feedback, lost;
};

double gigabytes_a_second(const spent& time) {
  return count * sizeof(float) * 1e-9 / time.seconds;
}

} // namespace

void measure_compression(const setting& how, report& out) {
  out.begin(
    "GB of a gradient (45 MB) a second that are compressed and decompressed, "
    "one thread");
  auto gradient = random_gradient();
  std::vector<float> copy(count);
  std::vector<packer> all;
  for (const auto* name : {"fp16", "bf16", "int8", "topk(share=0.01)"})
    all.emplace_back(name);
  std::vector<std::function<void()>> works{[&] {
    std::memcpy(copy.data(), gradient.data(), count * sizeof(float));
  }};
  for (auto& one : all) {
    works.emplace_back([&] { one.pack(gradient); });
    works.emplace_back([&] { one.unpack(); });
  }
  size_t rounds = how.quick ? 1 : 15;
  auto took = alternate(rounds, works, [&](size_t round) {
    out.progress("round " + std::to_string(round + 1) + " of " +
                 std::to_string(rounds));
  });
  auto plain = gigabytes_a_second(took[0]);
  for (size_t i = 0; i < all.size(); ++i) {
    auto name = "transport/compression/" + all[i].name;
    out.add(compare(name + "/pack", gigabytes_a_second(took[2 * i + 1]), "GB/s",
                    "memcpy", plain, better::higher));
    out.add(compare(name + "/unpack", gigabytes_a_second(took[2 * i + 2]),
                    "GB/s", "memcpy", plain, better::higher));
  }
}

} // namespace troupe::bench
