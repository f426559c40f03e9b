#include "actors/follower.hpp"

#include "actors/clock/run_clock.hpp"
#include "actors/server_model.hpp"
#include "actors/spawning.hpp"
#include "config/failure.hpp"
#include "config/script.hpp"
#include "models/checkpoint.hpp"
#include "models/registry.hpp"

#include <cmath>
#include <cstdio>
#include <utility>

namespace troupe {

namespace {

/// s between looks at the folder.
constexpr double pause = 0.5;

std::filesystem::path checkpoints_below(const std::filesystem::path& given) {
  auto folder = std::filesystem::absolute(given).lexically_normal();
  if (!folder.has_filename()) // It was given with a slash at its end.
    folder = folder.parent_path();
  return folder.filename() == "checkpoints" ? folder : folder / "checkpoints";
}

} // namespace

follower_state::follower_state(pointer self, follower_parts parts)
  : self_(self), parts_(std::move(parts)),
    checkpoints_(checkpoints_below(parts_.folder)),
    summary_(checkpoints_.parent_path() / "summary.json") {
  // nop
}

follower_actor::behavior_type follower_state::make_behavior() {
  self_->send(self_, tick_atom_v);
  return {
    [this](tick_atom) { look(); },
    [this](ended_atom, const run_end& how) { end(how); },
  };
}

// The summary is written after the last checkpoint: when it was there before we
// looked, there is nothing newer to come.
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
  end({1, err.what()});
}

bool follower_state::look_at_newest() {
  auto all = models::list_checkpoints(checkpoints_);
  if (all.empty() || (seen_ && all.back().step <= seen_->value))
    return false;
  auto newest = models::newest_valid(
    checkpoints_, [](const std::string& line) { std::puts(line.c_str()); });
  if (!newest || (seen_ && newest->manifest.step() <= seen_->value))
    return false;
  if (!scorer_)
    prepare(*newest);
  evaluate(version{newest->manifest.step()},
           weights_of(*newest, parts_.settings.training, classes_));
  return true;
}

// What is evaluated, and on what, the first checkpoint says.
void follower_state::prepare(const models::loaded_checkpoint& first) {
  auto& settings = parts_.settings;
  settings.training.network = first.manifest.network();
  config::require_allowed(settings.training);
  settings.training.seed = first.manifest.seed();
  settings.data.dataset = first.manifest.dataset();
  if (!first.model.tensors().empty() &&
      first.model.tensors().front().dtype == "F64")
    settings.training.dtype = config::scalar_type::float64;
  computing_parts computing{settings,
                            data::load_dataset(settings.data,
                                               settings.training.seed,
                                               data::data_part::test),
                            parts_.threads};
  models::require_suitable(
    settings.training.network, computing.data.test->name(),
    computing.data.test->shape(), computing.data.test->classes());
  classes_ = computing.data.test->classes();
  scorer_ = spawn<scorer_actor, scorer_state>(self_->system(),
                                              placement::detached, computing);
}

void follower_state::evaluate(version what, const payload& weights) {
  seen_ = what;
  self_->request(scorer_, caf::infinite, evaluate_atom_v, what, weights)
    .then([this](const score& found) { take(found); },
          [this](const caf::error& why) {
            end({1, text_of(why)});
          });
}

void follower_state::take(const score& found) {
  std::printf("evaluation   step %s  accuracy %.2f %%  loss %.4f",
              to_string(found.weights).c_str(), 100 * found.accuracy.value,
              found.loss.value);
  if (!std::isnan(found.accuracy_top5))
    std::printf("  top-5 %.2f %%", 100 * found.accuracy_top5.value);
  std::puts("");
  std::fflush(stdout);
  self_->send(self_, tick_atom_v);
}

void follower_state::end(const run_end& how) {
  if (scorer_)
    self_->send_exit(scorer_, caf::exit_reason::user_shutdown);
  self_->send(parts_.supervisor, ended_atom_v, how);
  self_->quit();
}

} // namespace troupe
