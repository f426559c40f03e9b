#include "actors/user_process/user_process_state.hpp"

#include "actors/recording/console.hpp"
#include "actors/recording/first_failure.hpp"
#include "actors/runtime/unexpected.hpp"
#include "config/text/value.hpp"

#include <span>

namespace troupe {

user_process_state::user_process_state(caf::scheduled_actor* self,
                                       user_process_parts parts)
  : process_(std::move(parts)),
    blocks_(process_.line, process_.memory, process_.layout), actor_(self) {
  on_unexpected(self, [this](const std::string& line) {
    lose(caf::make_error(errc::failed, line));
  });
}

void user_process_state::lose(const caf::error& why) {
  if (lost_)
    return;
  lost_ = why;
  caf::anon_send(process_.session, ended_atom_v, run_end{1, text_of(why)});
  fail_requests();
}

void user_process_state::lose_over(const std::string& deed) {
  lose(caf::make_error(errc::protocol_violation, who() + " " + deed));
}

void user_process_state::lose_failed(const std::string& body) {
  external::body_reader in{std::as_bytes(std::span{body})};
  auto said = recording::read_reason(in.text());
  if (!in.complete() || said.what.empty())
    return lose_over("sent an error of another form");
  said.lines.insert(said.lines.begin(), said.what);
  for (const auto& line : said.lines)
    recording::say(line);
  lose(
    caf::make_error(errc::failed, who() + " has failed: " + said.lines.back()));
}

void user_process_state::refuse_kind(external::process_frame_kind kind) {
  lose_over("sent a frame of unknown kind " +
            std::to_string(static_cast<uint32_t>(kind)));
}

void user_process_state::lose_late(const std::string& deed) {
  auto limit = config::print(process_.settings.training.compute_timeout);
  lose(caf::make_error(errc::timed_out, who() + " has " + deed + " in " +
                                          limit + " s (--compute-timeout)"));
}

bool user_process_state::is_late(const run_clock& since) const {
  return since.elapsed(actor_) > process_.settings.training.compute_timeout;
}

std::string user_process_state::who() const {
  return "process " + std::to_string(process_.line->pid());
}

} // namespace troupe
