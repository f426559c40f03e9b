#include "actors/evaluator/follower.hpp"

#include "actors/recording/console.hpp"
#include "actors/recording/notes.hpp"
#include "actors/recording/progress.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/unexpected.hpp"
#include "actors/weights/first_weights.hpp"
#include "actors/weights/server_model.hpp"
#include "config/schema/known_names.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "config/text/value.hpp"
#include "config/values/metrics.hpp"
#include "config/values/script.hpp"
#include "data/describe.hpp"
#include "messages/run_record.hpp"
#include "models/networks/registry.hpp"
#include "models/storage/checkpoint.hpp"

#include <utility>

namespace troupe {

namespace {

/// Seconds between two checks of the folder.
constexpr double pause = 0.5;

std::filesystem::path checkpoints_below(const std::filesystem::path& given) {
  auto folder = std::filesystem::absolute(given).lexically_normal();
  if (!folder.has_filename()) // It ends with a slash.
    folder = folder.parent_path();
  return folder.filename() == "checkpoints" ? folder : folder / "checkpoints";
}

} // namespace

follower_state::follower_state(pointer self, follower_parts parts)
  : self_(self), parts_(std::move(parts)), clock_(self),
    checkpoints_(checkpoints_below(parts_.folder)),
    summary_(checkpoints_.parent_path() / "summary.json") {
  on_unexpected(self_, [this](const std::string& line) { end({1, line}); });
}

follower_actor::behavior_type follower_state::make_behavior() {
  self_->send(self_, tick_atom_v);
  return {
    [this](tick_atom) { look(); },
    [this](ended_atom, const run_end& how) { end(how); },
  };
}

// The summary is written after the last checkpoint. If it existed before the
// folder was checked, no newer checkpoint will come.
void follower_state::look() try {
  auto over = std::filesystem::exists(summary_);
  if (look_at_next(over))
    return;
  if (over)
    return end({});
  if (!seen_)
    wait_for_run();
  self_->delayed_send(self_, to_timespan(pause), tick_atom_v);
} catch (const failure& err) {
  end({static_cast<uint8_t>(err.status()), err.what()});
} catch (const std::exception& err) {
  end({1, one_line(err)});
}

// A run may take long to its first checkpoint; but a folder without a run is
// probably the wrong one.
void follower_state::wait_for_run() {
  auto run = checkpoints_.parent_path();
  auto is_there = std::filesystem::exists(checkpoints_) ||
                  std::filesystem::exists(run / "config.ini");
  auto patience = parts_.settings.cluster.connect_timeout;
  if (!is_there && clock_.elapsed(self_) > patience)
    throw run_error("--follow " + parts_.folder.string() +
                    ": no run has come there within " +
                    config::print(patience) +
                    " s; check the path, or raise --connect-timeout");
  if (!std::exchange(waits_, true))
    recording::say("waiting      for " +
                   (is_there
                      ? "a checkpoint in " + checkpoints_.string()
                      : "a run in " + run.string() + ": there is none yet"));
}

bool follower_state::look_at_next(bool over) {
  auto newest = next(over);
  if (!newest)
    return false;
  auto run = description_of(newest->manifest);
  if (!scorer_ || run.run_id != run_.run_id ||
      !config::differences(run_, run, config::relation::resume).empty())
    prepare(std::move(run), *newest);
  version step{newest->manifest.step()};
  if (settings_.evaluation.every && seen_ && step <= *seen_) {
    // It was scored at an earlier start.
    self_->send(self_, tick_atom_v);
    return true;
  }
  payload average;
  auto take_average = [&](const models::loaded_checkpoint& whole) {
    average = average_of(whole, settings_.training, classes_);
  };
  if (settings_.training.ema_decay > 0 && settings_.evaluation.every)
    take_average(*newest);
  else if (settings_.training.ema_decay > 0)
    take_average(models::read_checkpoint(newest->path));
  evaluate(step, weights_of(*newest, settings_.training, classes_), average);
  return true;
}

std::optional<models::loaded_checkpoint> follower_state::next(bool over) {
  auto all = models::list_checkpoints(checkpoints_);
  if (all.empty() || (seen_ && all.back().step == seen_->value))
    return std::nullopt;
  if (parts_.settings.evaluation.every) {
    // The run may have gone on from an older one.
    if (seen_ && all.back().step < seen_->value)
      seen_ = version{all.back().step};
    return next_in_order(all, over);
  }
  auto newest = models::newest_valid(checkpoints_, recording::say,
                                     models::checkpoint_content::weights);
  if (newest && seen_ && newest->manifest.step() == seen_->value)
    return std::nullopt;
  return newest;
}

std::optional<models::loaded_checkpoint>
follower_state::next_in_order(const std::vector<models::checkpoint_entry>& all,
                              bool over) {
  auto every = *parts_.settings.evaluation.every;
  for (const auto& one : all) {
    auto is_last = over && one.step == all.back().step;
    if ((seen_ && one.step <= seen_->value) ||
        (one.step % every != 0 && !is_last))
      continue;
    try { // Reads it whole, since it may be pruned at any time.
      return models::read_checkpoint(one.path);
    } catch (const run_error& err) {
      seen_ = version{one.step};
      recording::say(std::filesystem::exists(one.path)
                       ? std::string{err.what()} + "; it is not scored"
                       : "missed       " + one.path.filename().string() +
                           ": it was pruned before it was scored");
    }
  }
  return std::nullopt;
}

// What this node was given must not be ignored.
void follower_state::require_settings(const config::run_description& run,
                                      const config::settings& joined) const {
  auto of_run = " in the run in " + parts_.folder.string();
  config::run_description here;
  here.settings = parts_.given;
  auto all = config::differences(run, here, config::relation::join);
  if (!all.empty())
    throw usage_error(all.front().what + " = " +
                      config::or_not_set(all.front().here) + " here, but " +
                      config::or_not_set(all.front().run) + of_run +
                      ": leave it out");
  const auto& data = joined.data;
  if (config::is_described(joined.training.network))
    throw usage_error(
      "--follow " + parts_.folder.string() +
      ": a program in Python trains this run, and it alone can "
      "score its weights: with a troupe.Evaluator at the "
      "parameter server, or by troupe.Run(DIR).state_dict(STEP)");
  if (parts_.data_dir_given && !config::reads_files(data.dataset))
    throw usage_error("--data-dir " + data.data_dir + ": " + data.dataset +
                      ", the data set" + of_run +
                      ", is not read from files: leave it out");
}

// The checkpoints say what is evaluated, and on which data.
void follower_state::prepare(config::run_description run,
                             const models::loaded_checkpoint& newest) {
  if (scorer_)
    self_->send_exit(scorer_, caf::exit_reason::user_shutdown);
  auto settings = parts_.settings;
  config::apply_shared_settings(settings, run.settings);
  require_settings(run, settings);
  config::require_allowed(settings.training);
  computing_parts computing{settings,
                            data::load_dataset(settings.data,
                                               settings.training.seed,
                                               data::data_part::test),
                            parts_.threads};
  const auto& test = *computing.data.test;
  models::require_suitable(settings.training.network, test.name(), test.shape(),
                           test.classes());
  data::require_same_test(run, test, parts_.folder.string());
  classes_ = test.classes();
  computing.frozen = frozen_weights(settings.training, classes_, newest);
  settings_ = std::move(settings);
  run_ = std::move(run);
  scorer_ = spawn<scorer_actor, scorer_state>(self_->system(),
                                              placement::detached, computing);
  keep_scores(newest);
}

void follower_state::keep_scores(const models::loaded_checkpoint& newest) {
  const auto& own = settings_.training.train_dir;
  auto folder =
    own.empty() ? checkpoints_.parent_path() : std::filesystem::path{own};
  const auto& data = settings_.data.dataset;
  recording::start_record run{newest.manifest.step(),
                              clock_.elapsed(self_),
                              run_.run_id,
                              settings_.training.network,
                              data,
                              settings_.policy.name,
                              settings_.cluster.workers,
                              settings_.cluster.shards,
                              settings_.training.seed};
  scores_.reset();
  try {
    if (!own.empty())
      std::filesystem::create_directories(folder);
    scores_.emplace(folder, run, config::order_of(settings_));
  } catch (const std::exception& err) {
    if (!own.empty())
      throw;
    recording::say("warning      the scores are not kept: " + one_line(err) +
                   "; give a folder for them with --train-dir");
    return;
  }
  if (auto last = scores_->last(); settings_.evaluation.every && last && !seen_)
    seen_ = version{*last};
}

void follower_state::evaluate(version number, const payload& weights,
                              const payload& average) {
  seen_ = number;
  score_weights(number, weights, false,
                [this, number, average](const score& found) {
                  if (!average)
                    return report_score(found);
                  score_weights(number, average, true,
                                [this, found](const score& of_average) {
                                  report_score(with_average(found, of_average));
                                });
                });
}

void follower_state::score_weights(version number, const payload& weights,
                                   bool of_average,
                                   std::function<void(const score&)> then) {
  self_
    ->request(scorer_, caf::infinite, evaluate_atom_v, number, weights,
              of_average)
    .then(std::move(then), [this](const caf::error& why) {
      end({1, text_of(why)});
    });
}

void follower_state::report_score(const score& found) try {
  recording::say(recording::score_line(record_of(found, 0)));
  if (scores_)
    scores_->add(record_of(found, clock_.elapsed(self_)));
  self_->send(self_, tick_atom_v);
} catch (const failure& err) { // The disk is full.
  end({static_cast<uint8_t>(err.status()), err.what()});
}

void follower_state::end(const run_end& how) {
  if (scorer_)
    self_->send_exit(scorer_, caf::exit_reason::user_shutdown);
  self_->send(parts_.supervisor, ended_atom_v, how);
  self_->quit();
}

} // namespace troupe
