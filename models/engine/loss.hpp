#pragma once
// The losses that `--loss` knows, and how to add one of your own: define one
// such object in a source file of your program.
//
//   static const troupe::models::register_loss mine{
//     {"margin", [](const auto&) {
//        return [](const at::Tensor& scores, const at::Tensor& targets,
//                  at::Reduction::Reduction how) {
//          return at::multi_margin_loss(scores, targets, 1, 1, {}, how);
//        };
//      }}};
//
// Workers train with it and evaluators report it as `loss`. Registering: to be
// done before main begins; not thread-safe. Afterwards any thread may read.

#include "config/text/settings.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

namespace troupe::models {

/// The loss of samples, a scalar with a gradient: `how` is Mean or Sum.
/// Stateless; any thread.
/// @param scores [n, classes], or whatever the network gives for n samples.
/// @param targets [n] int64
using loss_function =
  std::function<at::Tensor(const at::Tensor& scores, const at::Tensor& targets,
                           at::Reduction::Reduction how)>;

struct loss_entry {
  std::string name;
  std::function<loss_function(const config::training_settings&)> make;
};

class register_loss {
public:
  /// A name that is taken or invalid is reported as `usage_error` when settings
  /// are read, because before main nobody could catch it.
  explicit register_loss(loss_entry entry);
};

/// A loss in training, or in an evaluation, where labels are not smoothed.
class training_loss {
public:
  /// @throws usage_error if there is none of this name.
  explicit training_loss(const config::training_settings& settings);

  /// The share of these samples in the mean loss of a batch of `of` samples.
  /// @throws run_error if the loss is no scalar.
  at::Tensor share(const at::Tensor& scores, const at::Tensor& targets,
                   int64_t of) const;

  /// The sum over samples, as an evaluation has it.
  at::Tensor sum(const at::Tensor& scores, const at::Tensor& targets) const;

private:
  at::Tensor call(const loss_function& loss, const at::Tensor& scores,
                  const at::Tensor& targets,
                  at::Reduction::Reduction how) const;

  std::string name_;
  loss_function train_;
  loss_function evaluate_;
};

} // namespace troupe::models
