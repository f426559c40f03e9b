#include "models/optim/aggregate.hpp"

#include "config/text/failure.hpp"
#include "models/kernels/kernels.hpp"
#include "models/optim/device_mean.hpp"

#include <atomic>
#include <string>

namespace troupe::models {

namespace {

bool same_kind(const at::Tensor& x, const at::Tensor& other) {
  return x.defined() && x.is_contiguous() && x.device() == other.device() &&
         x.scalar_type() == other.scalar_type() && x.numel() == other.numel() &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
}

template <class T>
bool finite(const at::Tensor& flat, const lanes& across) {
  std::atomic<bool> sound = true;
  const auto* data = flat.const_data_ptr<T>();
  across.each(static_cast<size_t>(flat.numel()), least_checked_part,
              [&](size_t first, size_t end) {
                if (!kernels::fastest<T>().finite(data + first, end - first))
                  sound = false;
              });
  return sound;
}

} // namespace

std::vector<double> mean_factors(std::span<const at::Tensor> gradients,
                                 std::span<const double> shares) {
  if (gradients.empty() || gradients.size() != shares.size()) {
    throw run_error(std::to_string(gradients.size()) +
                    " gradients cannot be averaged with " +
                    std::to_string(shares.size()) + " shares");
  }
  double total = 0;
  for (auto n : shares) {
    total += n;
  }
  if (!(total > 0)) {
    throw run_error("gradients of no samples cannot be averaged");
  }
  std::vector<double> out;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!same_kind(gradients[i], gradients[0]))
      throw run_error("gradients that differ in size or dtype cannot be "
                      "averaged");
    out.push_back(shares[i] / total);
  }
  return out;
}

template <class T>
blocked_mean<T>::blocked_mean(std::span<const at::Tensor> gradients,
                              std::span<const double> shares) {
  auto factors = mean_factors(gradients, shares);
  if (!gradients[0].is_cpu() ||
      gradients[0].scalar_type() != c10::CppTypeToScalarType<T>::value)
    throw run_error("gradients of another dtype or device cannot be averaged");
  for (size_t i = 0; i < gradients.size(); ++i) {
    in_.push_back(gradients[i].const_data_ptr<T>());
    factors_.push_back(static_cast<T>(factors[i]));
  }
  if (gradients.size() > 1) {
    here_.resize(gradients.size());
    out_ = std::make_unique_for_overwrite<T[]>(block());
  }
}

template <class T>
const T* blocked_mean<T>::at(size_t first, size_t count) {
  if (!out_) {
    return in_[0] + first; // A single gradient is its own mean.
  }
  for (size_t k = 0; k < in_.size(); ++k) {
    here_[k] = in_[k] + first;
  }
  kernels::fastest<T>().sum(out_.get(), here_.data(), factors_.data(),
                            here_.size(), count);
  return out_.get();
}

template class blocked_mean<float>;
template class blocked_mean<double>;

bool all_finite(const at::Tensor& flat, const lanes& across) {
  if (!same_kind(flat, flat))
    throw run_error("only contiguous float32 or float64 can be checked for "
                    "NaN");
  if (!flat.is_cpu())
    return all_finite_on_device(flat);
  return flat.scalar_type() == at::kDouble ? finite<double>(flat, across)
                                           : finite<float>(flat, across);
}

} // namespace troupe::models
