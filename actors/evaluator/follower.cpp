#include "actors/evaluator/follower.hpp"

#include "actors/recording/console.hpp"
#include "actors/recording/notes.hpp"
#include "actors/recording/progress.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/unexpected.hpp"
#include "actors/state/first_weights.hpp"
#include "actors/state/server_model.hpp"
#include "config/text/failure.hpp"
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
  : self_(self), parts_(std::move(parts)),
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
  if (look_at_newest())
    return;
  if (over)
    end({});
  else
    self_->delayed_send(self_, to_timespan(pause), tick_atom_v);
} catch (const failure& err) {
  end({static_cast<uint8_t>(err.status()), err.what()});
} catch (const std::exception& err) {
  end({1, one_line(err)});
}

bool follower_state::look_at_newest() {
  auto all = models::list_checkpoints(checkpoints_);
  if (all.empty() || (seen_ && all.back().step == seen_->value))
    return false;
  auto newest = models::newest_valid(checkpoints_, recording::say,
                                     models::checkpoint_content::weights);
  if (!newest || (seen_ && newest->manifest.step() == seen_->value))
    return false;
  auto run = description_of(newest->manifest);
  if (!scorer_ || run.run_id != run_.run_id ||
      !config::differences(run_, run, config::relation::resume).empty())
    prepare(std::move(run), *newest);
  version step{newest->manifest.step()};
  payload average;
  if (settings_.training.ema_decay > 0)
    average = average_of(models::read_checkpoint(newest->path),
                         settings_.training, classes_);
  evaluate(step, weights_of(*newest, settings_.training, classes_), average);
  return true;
}

// The checkpoints say what is evaluated, and on which data.
void follower_state::prepare(config::run_description run,
                             const models::loaded_checkpoint& newest) {
  if (scorer_)
    self_->send_exit(scorer_, caf::exit_reason::user_shutdown);
  auto settings = parts_.settings;
  config::apply_shared_settings(settings, run.settings);
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
}

void follower_state::evaluate(version what, const payload& weights,
                              const payload& average) {
  seen_ = what;
  score_weights(what, weights, false,
                [this, what, average](const score& found) {
                  if (!average)
                    return take(found);
                  score_weights(what, average, true,
                                [this, found](const score& of_average) {
                                  take(with_average(found, of_average));
                                });
                });
}

void follower_state::score_weights(version what, const payload& weights,
                                   bool of_average,
                                   std::function<void(const score&)> then) {
  self_
    ->request(scorer_, caf::infinite, evaluate_atom_v, what, weights,
              of_average)
    .then(std::move(then), [this](const caf::error& why) {
      end({1, text_of(why)});
    });
}

void follower_state::take(const score& found) {
  recording::say(recording::score_line(record_of(found, 0)));
  self_->send(self_, tick_atom_v);
}

void follower_state::end(const run_end& how) {
  if (scorer_)
    self_->send_exit(scorer_, caf::exit_reason::user_shutdown);
  self_->send(parts_.supervisor, ended_atom_v, how);
  self_->quit();
}

} // namespace troupe
