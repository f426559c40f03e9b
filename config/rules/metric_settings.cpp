#include "config/rules/metric_settings.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/values/metrics.hpp"

#include <array>

namespace troupe::config {

namespace {

constexpr std::array<std::string_view, 3> native_names{
  native_metrics::accuracy, native_metrics::loss,
  native_metrics::accuracy_top5};

void require_native(const resolved& all, const char* id,
                    const std::string& metric) {
  const auto& training = all.values.training;
  if (is_of_average(metric) && training.ema_decay == 0)
    refuse(all, id,
           "is of the average of the weights, which --ema-decay keeps: give "
           "it, too");
  if (!is_among(native_names, name_to_find(training, metric)))
    refuse(all, id,
           "there is no metric " + metric +
             " but accuracy, loss and accuracy_top5 of networks that Troupe "
             "computes");
}

} // namespace

// In one process all networks are Troupe's own, and so are their metrics. An
// evaluator of the user's may find others: their names are known only when its
// first score comes.
void check_metrics(const resolved& all) {
  const auto& training = all.values.training;
  if (!training.target.empty() && training.target_accuracy)
    refuse(all, "training.target",
           "says the same as " + all.cite("training.target-accuracy") +
             ": give one of the two");
  if (all.values.what != role::simulate)
    return;
  if (!training.target.empty())
    require_native(all, "training.target", parse_target(training.target).name);
  if (const auto& by = all.values.checkpoint.best_by; !by.empty())
    require_native(all, "checkpoint.best-by", parse_order(by).name);
}

} // namespace troupe::config
