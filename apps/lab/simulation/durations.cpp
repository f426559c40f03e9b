#include "apps/lab/simulation/durations.hpp"

#include "data/sampling/philox.hpp"

#include <cmath>
#include <random>

namespace troupe::simulation {

/// Random bits in the form that the standard distributions take.
class durations::stream {
public:
  using result_type = uint32_t;

  stream(uint64_t seed, uint64_t index)
    : bits_(seed, data::random_purpose::compute_time, index) {
    // nop
  }

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return UINT32_MAX; }

  result_type operator()() { return bits_.next(); }

  /// Uniform in (0, 1].
  double uniform() {
    auto high = uint64_t{bits_.next()} << 32;
    return static_cast<double>(((high | bits_.next()) >> 11) + 1) * 0x1p-53;
  }

private:
  data::philox_stream bits_;
};

namespace {

using sampler = durations::sampler;
using stream = durations::stream;

sampler constant(double value) {
  return [=](worker_id, stream&) {
    return value;
  };
}

sampler gamma(double mean, double cv) {
  auto shape = 1 / (cv * cv);
  return [=](worker_id, stream& random) {
    return std::gamma_distribution<double>{shape, mean / shape}(random);
  };
}

sampler exponential(double offset, double mean) {
  return [=](worker_id, stream& random) {
    return offset - mean * std::log(random.uniform());
  };
}

// Pareto type I; its mean is scale * alpha / (alpha - 1).
sampler pareto(double alpha, double mean) {
  auto scale = mean * (alpha - 1) / alpha;
  return [=](worker_id, stream& random) {
    return scale * std::pow(random.uniform(), -1 / alpha);
  };
}

sampler transient(const sampler& base, double p, double factor) {
  return [=](worker_id who, stream& random) {
    auto hit = random.uniform() <= p;
    return base(who, random) * (hit ? factor : 1);
  };
}

sampler slow(const sampler& base, worker_id which, double factor) {
  return [=](worker_id who, stream& random) {
    return base(who, random) * (who == which ? factor : 1);
  };
}

sampler make(const config::distribution& times) {
  auto number = [&](const char* name) {
    return times.numbers.at(name);
  };
  if (times.name == "gamma")
    return gamma(number("mean"), number("cv"));
  if (times.name == "exp")
    return exponential(number("offset"), number("mean"));
  if (times.name == "pareto")
    return pareto(number("alpha"), number("mean"));
  if (times.name == "transient")
    return transient(make(*times.base), number("p"), number("factor"));
  if (times.name == "slow")
    return slow(make(*times.base),
                worker_id{static_cast<uint32_t>(number("worker"))},
                number("factor"));
  return constant(number("value"));
}

} // namespace

durations::durations(const config::distribution& times, uint64_t seed)
  : sample_(make(times)), seed_(seed) {
  // nop
}

double durations::draw(worker_id who, uint64_t n) const {
  stream random{seed_, uint64_t{who.value} << 40 | n};
  return sample_(who, random);
}

} // namespace troupe::simulation
