#include "models/kernels/kernels.hpp"

namespace troupe::models::kernels {

namespace baseline {
extern const loops<float> f32;
extern const loops<double> f64;
} // namespace baseline

#ifdef TROUPE_X86_64

namespace avx2 {
extern const loops<float> f32;
extern const loops<double> f64;
} // namespace avx2

namespace avx512 {
extern const loops<float> f32;
extern const loops<double> f64;
} // namespace avx512

#endif

const std::vector<variant>& variants() {
  static const std::vector<variant> all{
    {"baseline", true, &baseline::f32, &baseline::f64},
#ifdef TROUPE_X86_64
    {"avx2", __builtin_cpu_supports("avx2") != 0, &avx2::f32, &avx2::f64},
    {"avx512", __builtin_cpu_supports("avx512f") != 0, &avx512::f32,
     &avx512::f64},
#endif
  };
  return all;
}

void end_of_streams() {
#ifdef TROUPE_X86_64
  __builtin_ia32_sfence();
#endif
}

namespace {

const variant& best() {
  static const variant& chosen = [&]() -> const variant& {
    const auto* out = &variants().front();
    for (const auto& one : variants())
      out = one.usable ? &one : out;
    return *out;
  }();
  return chosen;
}

} // namespace

template <>
const loops<float>& fastest<float>() {
  return *best().f32;
}

template <>
const loops<double>& fastest<double>() {
  return *best().f64;
}

} // namespace troupe::models::kernels
