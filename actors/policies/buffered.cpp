#include "actors/policies/buffered.hpp"

#include "actors/policies/rows.hpp"
#include "actors/policies/state_text.hpp"
#include "config/text/settings.hpp"
#include "config/text/text.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::policies {

buffered::buffered(std::string name, uint64_t size)
  : name_(std::move(name)), size_(size) {
  // nop
}

void buffered::reset(version v) {
  current_ = v;
  members_.clear();
  gradients_.clear();
}

decision buffered::on_join(std::span<const worker_id> who) {
  decision out;
  for (auto id : who)
    if (!members_.try_emplace(id).second)
      throw std::logic_error("worker " + to_string(id) + " joined twice");
  out.release.assign(who.begin(), who.end());
  std::ranges::sort(out.release);
  return out;
}

// No further gradient comes: the last step of a run may have fewer than K.
decision buffered::on_leave(worker_id who) {
  decision out;
  members_.erase(who);
  if (members_.empty())
    close(out);
  return out;
}

decision buffered::on_arrival(const arrival& push) {
  decision out;
  if (!members_.contains(push.id.worker)) {
    out.drop.push_back(push.id);
    return out;
  }
  gradients_.push_back({push.id});
  if (gradients_.size() >= size_)
    close(out);
  out.release.push_back(push.id.worker);
  return out;
}

void buffered::close(decision& out) {
  if (gradients_.empty())
    return;
  std::ranges::sort(gradients_, {}, &part::id);
  out.updates.push_back({std::exchange(gradients_, {})});
  current_ = current_.next();
}

decision buffered::on_pull(worker_id who) {
  decision out;
  if (members_.contains(who))
    out.release.push_back(who);
  return out;
}

std::string buffered::state() const {
  std::vector<uint64_t> members;
  for (const auto& [who, nothing] : members_)
    members.push_back(who.value);
  std::vector<uint64_t> gradients;
  for (const auto& [id, weight] : gradients_)
    gradients.insert(gradients.end(),
                     {id.worker.value, id.life.value, id.seq.value});
  state_writer out{name_};
  out.number("k", size_);
  out.number("v", current_.value);
  out.rows("members", 1, members);
  out.rows("gradients", 3, gradients);
  return out.str();
}

// -- registration -------------------------------------------------------------

row buffered_row() {
  using config::arguments;
  return {{
            .schema = {"buffered",
                       {{"size", "K", "gradients that make a step",
                         config::whole(1, 1'000'000), "2"}}},
            .other_names = {"fedbuff"},
            .sentence =
              [](const arguments& of, uint32_t) {
                return "nobody waits; " +
                       config::count(of.whole("size"), "gradient") +
                       " make a step";
              },
            .gradients_per_step = [](const arguments& of,
                                     uint32_t) { return of.whole("size"); },
            .versions_behind = [](const arguments&,
                                  uint32_t workers) { return workers; },
            .momentum = config::asynchronous_momentum,
          },
          [](const policy_spec& spec) {
            return std::make_unique<buffered>("buffered",
                                              spec.parameters.whole("size"));
          }};
}

row async_row() {
  return {{
            .schema = {"async", {}},
            .other_names = {"asp"}, // asynchronous parallel
            .sentence = [](const config::arguments&,
                           uint32_t) { return "nobody waits"; },
            .gradients_per_step = [](const config::arguments&,
                                     uint32_t) { return 1; },
            .versions_behind = [](const config::arguments&,
                                  uint32_t workers) { return workers; },
            .momentum = config::asynchronous_momentum,
            .compared_as = "async",
          },
          [](const policy_spec&) {
            return std::make_unique<buffered>("async", 1);
          }};
}

} // namespace troupe::policies
