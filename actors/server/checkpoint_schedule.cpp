#include "actors/server/checkpoint_schedule.hpp"

#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/tensor_payload.hpp"
#include "config/text/one_line.hpp"
#include "models/storage/checkpoint.hpp"

#include <exception>
#include <memory>
#include <utility>

namespace troupe {

bool checkpoint_schedule::take_checkpoint() {
  auto of = lead_.newest();
  if (!parts_.wanted || last_ == of || !parts_.shards->complete())
    return false;
  last_ = of;
  keep_carried();
  collect([this](const snapshot_ptr& state) {
    lead_.state_collected(*state);
    if (closed_)
      return;
    next_ = state;
    write_next();
  });
  return true;
}

// Has the workers save what they carry from one gradient to the next. The run
// does not end before they have.
void checkpoint_schedule::keep_carried() {
  if (!parts_.workers_carry)
    return;
  auto done = [this] {
    --keeping_;
    lead_.saving_is_idle();
  };
  for (const auto& who : lead_.workers()) {
    ++keeping_;
    parts_.self
      ->request(who.handle, to_timespan(patience_with_a_worker), write_atom_v,
                lead_.newest(), who.settled)
      .then(done, [done](const caf::error&) { done(); });
  }
}

// The shards handle messages meanwhile, but the state that they add is that of
// this version.
void checkpoint_schedule::collect(
  std::function<void(const snapshot_ptr&)> then) {
  auto out = std::make_shared<snapshot>();
  lead_.describe(*out);
  ++collecting_;
  auto done = [this, out, then = std::move(then)] {
    --collecting_;
    then(out);
  };
  auto failed = [this](const std::exception& err) {
    --collecting_;
    fail(one_line(err));
  };
  shard_fetch wanted;
  try {
    if (parts_.shards->any())
      wanted.places = parts_.model->draft(*out, parts_.folder);
    else
      parts_.model->save(*out);
  } catch (const std::exception& err) {
    return failed(err);
  }
  if (!parts_.shards->any())
    return done();
  wanted.width = models::size_of(out->layout->dtype());
  wanted.files = out->drafts;
  parts_.shards->fetch(std::move(wanted), [out, done, failed] {
    try {
      out->drafts->model.reopen();
      out->drafts->optimizer.reopen();
    } catch (const std::exception& err) {
      return failed(err);
    }
    done();
  });
}

// Tells the lead later, not within the step that wanted the checkpoint.
void checkpoint_schedule::fail(const std::string& line) {
  parts_.self->run_delayed(caf::timespan{0},
                           [this, line] { lead_.saving_failed(line); });
}

void checkpoint_schedule::write_best(snapshot_ptr state) {
  next_best_ = std::move(state);
  write_next();
}

void checkpoint_schedule::write_settings(snapshot_ptr state) {
  next_settings_ = std::move(state);
  write_next();
}

void checkpoint_schedule::give_up() {
  next_ = nullptr;
  next_settings_ = nullptr;
  next_best_ = nullptr;
}

void checkpoint_schedule::write_next() {
  auto& next = next_settings_ ? next_settings_ : next_ ? next_ : next_best_;
  if (writing_ || !next)
    return;
  writing_ = true;
  auto what = std::exchange(next, nullptr);
  parts_.self->request(parts_.writer, caf::infinite, write_atom_v, what)
    .then(
      [this, what](const std::string& name) {
        writing_ = false;
        lead_.state_saved(*what, name);
        write_next();
        lead_.saving_is_idle();
      },
      [this](const caf::error& err) {
        writing_ = false;
        lead_.saving_failed(text_of(err));
      });
}

} // namespace troupe
