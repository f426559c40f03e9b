#include "apps/lab/simulation/policy_changes.hpp"

#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/spawning.hpp"

#include <memory>
#include <utility>

namespace troupe::simulation {

namespace {

using changer_actor = caf::typed_actor<caf::result<void>(tick_atom)>;

class policy_changer_state {
public:
  using pointer = changer_actor::stateful_pointer<policy_changer_state>;

  static constexpr const char* name = "troupe.policy-changer";

  policy_changer_state(pointer self, std::vector<config::timed_policy> all,
                       std::function<std::optional<lead_actor>()> find,
                       app::speech say)
    : self_(self), all_(std::move(all)), find_(std::move(find)),
      say_(std::move(say)), left_(all_.size()) {
    // nop
  }

  changer_actor::behavior_type make_behavior() {
    for (const auto& next : all_)
      self_->run_delayed(to_timespan(next.at),
                         [this, text = next.policy] { change(text); });
    return {[](tick_atom) {
    }};
  }

private:
  void change(const std::string& policy) {
    auto server = find_();
    if (!server)
      return done("the server is down");
    self_->request(*server, caf::infinite, policy_atom_v, policy)
      .then([this](version) { done({}); },
            [this](const caf::error& why) {
              auto refused = why == errc::settings_conflict ||
                             why == errc::failed; // Else the run is over.
              done(refused ? text_of(why) : std::string{});
            });
  }

  void done(const std::string& why_not) {
    if (!why_not.empty())
      say_("policy       stays as it is: " + why_not);
    if (--left_ == 0)
      self_->quit();
  }

  pointer self_;
  std::vector<config::timed_policy> all_;
  std::function<std::optional<lead_actor>()> find_;
  app::speech say_;
  size_t left_;
};

} // namespace

void spawn_policy_changes(caf::actor_system& system,
                          std::vector<config::timed_policy> all,
                          std::function<std::optional<lead_actor>()> find,
                          app::speech say) {
  if (!all.empty())
    spawn<changer_actor, policy_changer_state>(system, placement::scheduled,
                                               std::move(all), std::move(find),
                                               std::move(say));
}

} // namespace troupe::simulation
