#include "models/engine/bfloat16_gain.hpp"

#include "models/engine/compute.hpp"
#include "models/engine/stopwatch.hpp"
#include "models/scalar.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <vector>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace troupe::models {

namespace {

/// The longest that a step should take, and about how long all together; in s.
constexpr double longest_step = 0.25;
constexpr double long_enough = 1.5;

/// The fewest pairs of steps that are measured, and the most.
constexpr size_t fewest_pairs = 3;
constexpr size_t most_pairs = 50;

double median(std::vector<double> all) {
  auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::ranges::nth_element(all, middle);
  return *middle;
}

config::training_settings with(config::training_settings settings,
                               config::autocast_kind kind) {
  settings.autocast = kind;
  return settings;
}

/// The same steps in both types.
class pair_of_engines {
public:
  pair_of_engines(const config::training_settings& settings,
                  const std::array<uint64_t, 3>& shape, uint64_t classes)
    : shape_(shape), classes_(static_cast<int64_t>(classes)),
      plain_(with(settings, config::autocast_kind::none), classes_),
      short_(with(settings, config::autocast_kind::bf16), classes_),
      weights_(at::empty({static_cast<int64_t>(plain_.layout().count())},
                         to_aten(settings.dtype))),
      gradient_(at::zeros_like(weights_)) {
    auto on_cpu = settings;
    on_cpu.device = "cpu";
    compute_engine{on_cpu, classes_}.initial_weights(weights_, settings.seed);
  }

  void draw(uint64_t samples) {
    auto n = static_cast<int64_t>(samples);
    auto draws = at::make_generator<at::CPUGeneratorImpl>(1);
    auto size = [this](size_t i) {
      return static_cast<int64_t>(shape_[i]);
    };
    inputs_ = at::rand({n, size(0), size(1), size(2)}, draws);
    targets_ = at::randint(classes_, {n}, draws, at::kLong);
  }

  double plain_step() { return step(plain_); }

  double short_step() { return step(short_); }

private:
  /// Makes a step and returns its time in seconds.
  double step(compute_engine& engine) {
    return seconds_of(
      [&] { engine.run(weights_, inputs_, targets_, gradient_); });
  }

  std::array<uint64_t, 3> shape_;
  int64_t classes_;
  compute_engine plain_;
  compute_engine short_;
  at::Tensor weights_;
  at::Tensor gradient_;
  at::Tensor inputs_;
  at::Tensor targets_;
};

/// The number of samples for a step: as many as are wanted, or as many as the
/// time of a small step lets hope for.
uint64_t samples_for(pair_of_engines& engines, uint64_t wanted) {
  // At least two, since batch normalisation needs more than one.
  auto few = std::min<uint64_t>(wanted, 2);
  engines.draw(few);
  engines.plain_step(); // LibTorch prepares some kernels in the first.
  auto each = engines.plain_step() / static_cast<double>(few);
  auto affordable = static_cast<uint64_t>(std::min(longest_step / each, 1e9));
  return std::clamp(affordable, few, wanted);
}

} // namespace

bool has_bfloat16_instructions() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#elif defined(__aarch64__) && defined(__linux__)
  return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
#else
  return false;
#endif
}

double bfloat16_gain(const config::training_settings& settings,
                     const std::array<uint64_t, 3>& shape, uint64_t classes) {
  auto on_cpu = settings.device == "cpu";
  if ((on_cpu && !has_bfloat16_instructions()) ||
      settings.dtype != config::scalar_type::float32)
    return 0;
  pair_of_engines engines{settings, shape, classes};
  engines.draw(samples_for(
    engines, std::min(settings.batch_size, settings.micro_batch_size.value_or(
                                             settings.batch_size))));
  engines.plain_step();
  engines.short_step();
  std::vector<double> plain, brief;
  double spent = 0;
  while (plain.size() < fewest_pairs ||
         (plain.size() < most_pairs && spent < long_enough)) {
    plain.push_back(engines.plain_step());
    brief.push_back(engines.short_step());
    spent += plain.back() + brief.back();
  }
  return median(std::move(plain)) / median(std::move(brief));
}

} // namespace troupe::models
