#include "apps/trainer_node/external_process.hpp"

#include "actors/user_process/gpu_trial.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/values/external.hpp"

#include <tuple>

namespace troupe::app {

external_compute process_for(const config::settings& settings,
                             const std::function<bool()>& interrupted) {
  if (settings.training.compute != config::compute_kind::external)
    return {};
  external_compute out;
  std::tie(out.line, out.said) =
    external::wait_for_process(settings.training.compute_socket,
                               settings.training.compute_timeout, interrupted);
  if (!out.said.gpu.empty())
    out.memory.gpu = external::try_gpu(*out.line, out.said.gpu);
  auto scores = settings.what == config::role::evaluator;
  if (scores && out.said.samples > 0) {
    run_error why{"process " + std::to_string(out.line->pid()) +
                  " computes gradients, and an evaluator needs one that "
                  "scores"};
    out.line->end({1, why.what()});
    throw why;
  }
  return out;
}

void require_same_samples(const external_compute& process,
                          const data::dataset& set) {
  auto who = "process " + std::to_string(process.line->pid());
  const auto& said = process.said;
  if (said.samples != set.size())
    throw run_error(who + " has " + std::to_string(said.samples) +
                    " samples, and the run " + std::to_string(set.size()) +
                    " (--dataset " + set.name() + "); give all the same");
  if (!config::is_external(set.name()) || said.dataset.empty())
    return;
  if (auto wanted = config::parse_external(set.name()).id;
      said.dataset != wanted)
    throw run_error(who + " has the data set " +
                    config::in_quotes(said.dataset) + ", and the run " +
                    config::in_quotes(wanted) + "; give all the same");
}

} // namespace troupe::app
