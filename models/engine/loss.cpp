#include "models/engine/loss.hpp"

#include "config/schema/known_names.hpp"
#include "config/text/failure.hpp"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/div.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

namespace troupe::models {

namespace {

loss_function cross_entropy(const config::training_settings& settings) {
  return [smoothing = settings.label_smoothing](const at::Tensor& scores,
                                                const at::Tensor& targets,
                                                at::Reduction::Reduction how) {
    return at::cross_entropy_loss(scores, targets, {}, how,
                                  /*ignore_index=*/-100, smoothing);
  };
}

/// Troupe's own, then those of the user's program in the order of registration.
std::vector<loss_entry>& loss_table() {
  static auto all = [] {
    std::vector<loss_entry> own{{"cross-entropy", cross_entropy}};
    for (const auto& each : own)
      config::add_loss(each.name, true);
    return own;
  }();
  return all;
}

/// Makes them known to config before main.
[[maybe_unused]] const auto& losses_are_known = loss_table();

const loss_entry& loss_named(const std::string& name) {
  const auto& all = loss_table();
  auto found = std::ranges::find(all, name, &loss_entry::name);
  if (found == all.end())
    throw usage_error("unknown loss '" + name + "'");
  return *found;
}

} // namespace

/// Programs that link the library contain this source although they may not
/// call it (CMakeLists.txt).
extern "C" const char troupe_losses_are_known = 1;

register_loss::register_loss(loss_entry entry) {
  auto& all = loss_table();
  config::add_loss(entry.name, entry.make != nullptr);
  all.push_back(std::move(entry));
}

training_loss::training_loss(const config::training_settings& settings)
  : name_(settings.loss) {
  const auto& its = loss_named(name_);
  train_ = its.make(settings);
  auto plain = settings;
  plain.label_smoothing = 0;
  evaluate_ = its.make(plain);
}

at::Tensor training_loss::share(const at::Tensor& scores,
                                const at::Tensor& targets, int64_t of) const {
  if (targets.numel() == of)
    return call(train_, scores, targets, at::Reduction::Mean);
  return at::div(call(train_, scores, targets, at::Reduction::Sum), of);
}

at::Tensor training_loss::sum(const at::Tensor& scores,
                              const at::Tensor& targets) const {
  return call(evaluate_, scores, targets, at::Reduction::Sum);
}

at::Tensor training_loss::call(const loss_function& loss,
                               const at::Tensor& scores,
                               const at::Tensor& targets,
                               at::Reduction::Reduction how) const {
  auto out = loss(scores, targets, how);
  if (out.defined() && out.numel() == 1 && out.is_floating_point())
    return out;
  std::ostringstream text;
  if (out.defined())
    text << out.scalar_type() << ' ' << out.sizes();
  else
    text << "nothing";
  throw run_error("loss '" + name_ + "' gives " + text.str() +
                  " where one number is needed, the mean or the sum over the "
                  "samples");
}

} // namespace troupe::models
