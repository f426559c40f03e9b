#include "apps/evaluation/evaluation.hpp"

#include "actors/recording/log_lines.hpp"
#include "actors/recording/metrics_log.hpp"
#include "actors/recording/notes.hpp"
#include "actors/recording/progress.hpp"
#include "actors/recording/summary.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "actors/runtime/wall_clock.hpp"
#include "actors/weights/first_weights.hpp"
#include "actors/weights/server_model.hpp"
#include "actors/worker/computing.hpp"
#include "apps/startup/resources.hpp"
#include "config/report/report.hpp"
#include "config/run_folder/train_dir.hpp"
#include "config/text/version.hpp"
#include "data/describe.hpp"
#include "messages/run_record.hpp"
#include "models/engine/compute.hpp"
#include "models/networks/registry.hpp"
#include "models/storage/checkpoint.hpp"
#include "models/storage/durable_file.hpp"

#include <ATen/Parallel.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

void print_line(const std::string& line) {
  auto text = recording::log_lines::of_process().make(line);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

/// What is scored.
struct subject {
  payload weights;
  payload average; ///< Of the weights, if the run kept one.
  payload frozen;  ///< Those that the run did not train.
  uint64_t step = 0;
  std::string run_id; ///< Of the run that made them; empty for a file.
};

subject load_subject(const config::training_settings& training,
                     const data::dataset& test) {
  if (!training.resume) {
    auto first = read_first_weights(training, test.classes());
    for (const auto& line : first->lines)
      print_line("init         " + line);
    return {
      to_payload(first->weights.trained), {}, frozen_weights(*first), 0, ""};
  }
  using content = models::checkpoint_content;
  auto from = models::find_checkpoint(
    *training.resume, print_line,
    training.ema_decay > 0 ? content::all : content::weights);
  data::require_same_test(description_of(from.manifest), test,
                          from.path.string());
  print_line("checkpoint   " + from.path.string());
  return {weights_of(from, training, test.classes()),
          average_of(from, training, test.classes()),
          frozen_weights(training, test.classes(), from), from.manifest.step(),
          from.manifest.run_id()};
}

/// The results must not end up in the run that is scored, nor remove it.
void require_own_folder(const config::training_settings& training) {
  std::error_code error;
  if (training.resume && !fs::exists(*training.resume, error))
    throw usage_error("resume " + *training.resume + ": no such folder");
  config::require_resumable(training);
  if (!training.resume || training.train_dir.empty())
    return;
  auto scored = fs::weakly_canonical(*training.resume, error);
  auto own = fs::weakly_canonical(training.train_dir, error);
  for (auto at = scored;; at = at.parent_path()) {
    if (at == own)
      throw usage_error("train-dir " + training.train_dir +
                        ": holds what is to be scored; give another folder, "
                        "or none");
    if (!at.has_relative_path())
      return;
  }
}

/// A line that is overwritten while the work goes on, on a terminal alone.
class progress_line {
public:
  explicit progress_line(uint64_t all) : all_(all) {
    // nop
  }

  ~progress_line() {
    if (shown_)
      std::fputs("\r\033[K", stdout);
  }

  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  void show(uint64_t done) {
    if (!on_ || clock_.elapsed() < next_)
      return;
    next_ = clock_.elapsed() + 0.5;
    shown_ = true;
    std::printf("\r\033[Kevaluating   %llu of %llu samples",
                static_cast<unsigned long long>(done),
                static_cast<unsigned long long>(all_));
    std::fflush(stdout);
  }

private:
  uint64_t all_;
  bool on_ =
    terminal_width() > 0 && !recording::log_lines::of_process().is_json();
  bool shown_ = false;
  wall_clock clock_;
  double next_ = 0.5;
};

/// Nothing when it was interrupted.
std::optional<models::evaluation_result>
score_weights(models::compute_engine& engine, const config::settings& settings,
              const data::dataset& test, const payload& weights,
              const std::function<bool()>& interrupted) {
  auto batches =
    batches_of(test, settings.evaluation.eval_batch_size, settings.training);
  progress_line progress{test.size()};
  std::atomic<bool> cancel = false;
  uint64_t done = 0;
  auto next = [&](at::Tensor& inputs, at::Tensor& targets) {
    progress.show(done);
    cancel = interrupted();
    auto more = !cancel && batches(inputs, targets);
    done += more ? static_cast<uint64_t>(targets.numel()) : 0;
    return more;
  };
  auto found = engine.evaluate(to_tensor(weights), next, &cancel);
  if (found.cancelled || cancel)
    return std::nullopt;
  return found;
}

std::optional<score> score_subject(const config::settings& settings,
                                   const data::dataset& test,
                                   const subject& candidate,
                                   const std::function<bool()>& interrupted) {
  at::set_num_threads(threads_share(settings));
  models::compute_engine engine{settings.training, test.classes(),
                                to_tensor(candidate.frozen)};
  auto of = [&](const payload& weights) -> std::optional<score> {
    wall_clock clock;
    auto found = score_weights(engine, settings, test, weights, interrupted);
    if (!found)
      return std::nullopt;
    return score_of(version{candidate.step}, *found, clock.elapsed());
  };
  auto found = of(candidate.weights);
  if (!found || !candidate.average)
    return found;
  auto of_average = of(candidate.average);
  if (!of_average)
    return std::nullopt;
  return with_average(*found, *of_average);
}

void write_metrics(const fs::path& folder, const config::settings& settings,
                   const std::string& dataset, const subject& candidate,
                   const score& found) {
  using recording::metrics_log;
  metrics_log log{folder / "metrics.jsonl", metrics_log::mode::fresh};
  log.started({candidate.step, 0, candidate.run_id, settings.training.network,
               dataset, settings.policy.name, 0, 1, settings.training.seed});
  log.evaluation(record_of(found, found.seconds));
  log.finished(candidate.step, found.seconds, "completed");
}

recording::summary summary_of(const config::settings& settings,
                              const models::flat_layout& layout,
                              const subject& candidate, const score& found) {
  recording::summary out;
  out.status = "completed";
  out.policy = settings.policy.name;
  out.steps = candidate.step;
  out.wall_seconds = found.seconds;
  out.final_metrics = found.metrics;
  out.weights_sha256 = models::weights_sha256(
    {to_tensor(candidate.weights), to_tensor(candidate.frozen)}, layout);
  out.seed = settings.training.seed;
  out.sharding = config::print(settings.data.sharding);
  out.troupe_version = config::version();
  return out;
}

} // namespace

exit_status evaluate(const config::resolved& config,
                     const std::function<bool()>& interrupted) {
  const auto& settings = config.values;
  require_own_folder(settings.training);
  auto test = data::load_dataset(settings.data, settings.training.seed,
                                 data::data_part::test)
                .test;
  models::require_suitable(settings.training.network, test->name(),
                           test->shape(), test->classes());
  auto what = load_subject(settings.training, *test);
  auto own = settings.training;
  own.resume.reset();
  if (own.train_dir.empty())
    own.train_dir = config::make_score_folder(own.network);
  auto folder = config::open_run_directory(own);
  auto scored = score_subject(settings, *test, what, interrupted);
  if (!scored)
    return exit_status::try_again;
  const auto& found = *scored;
  if (folder.overwrites)
    config::remove_run(folder.path);
  models::replace_file(folder.path / "config.ini", config::to_ini(settings));
  write_metrics(folder.path, settings, test->name(), what, found);
  recording::write_summary(
    folder.path / "summary.json",
    summary_of(settings, models::layout_of(settings.training, test->classes()),
               what, found));
  print_line(recording::score_line(record_of(found, found.seconds)) + "  (" +
             std::to_string(found.samples) + " samples)");
  print_line("written      " + folder.path.string());
  return exit_status::done;
}

} // namespace troupe::app
