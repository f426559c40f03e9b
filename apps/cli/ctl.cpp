#include "apps/cli/ctl.hpp"

#include "actors/control/dialer.hpp"
#include "actors/runtime/run_clock.hpp"
#include "apps/startup/hello.hpp"
#include "apps/startup/trust.hpp"
#include "config/commands/command_line.hpp"
#include "config/commands/verb.hpp"
#include "config/runs/policy_change.hpp"
#include "config/text/value.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>

#include <algorithm>
#include <cstdio>
#include <set>

namespace troupe::app {

namespace {

/// Seconds for a step of the handshake.
constexpr double patience = 10;

/// Seconds for the answer: the change is durable then.
constexpr double patience_with_disk = 120;

const config::verb policy_verb{
  "ctl policy",
  "ctl policy changes the aggregation policy of a run that goes on: at once, "
  "durably, and without a restart. It asks the parameter server, and takes the "
  "flags of a worker that say where that is and how nodes know each other: "
  "--config, --host, --port, --tls-dir and the like. With certificates it "
  "needs one of the role operator.",
  {{"policy", "POLICY", "a policy, as in --policy: \"ssp(staleness=3)\"",
    config::any_text()}},
  false,
  {},
  true};

/// Whether it is the value of the flag before it, and not of one that may stand
/// alone.
bool is_value(const std::vector<std::string>& all, size_t at) {
  if (at == 0 || !all[at - 1].starts_with("--") ||
      all[at - 1].find('=') != std::string::npos)
    return false;
  const auto* flag = config::find_flag(all[at - 1].substr(2));
  return flag == nullptr || flag->alone.empty();
}

struct order {
  std::string policy;
  std::vector<std::string> flags; ///< Of a node.
};

order read(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] != "policy" || is_value(arguments, i))
      continue;
    order out;
    out.flags.assign(arguments.begin(),
                     arguments.begin() + static_cast<ptrdiff_t>(i));
    auto rest = std::span{arguments}.subspan(i + 1);
    if (rest.empty() || rest.front().starts_with("--"))
      break;
    out.policy = rest.front();
    out.flags.insert(out.flags.end(), rest.begin() + 1, rest.end());
    return out;
  }
  throw usage_error("ctl needs what is to change: trainer_node ctl policy "
                    "\"ssp(staleness=3)\" --host H --port P");
}

class operator_client {
public:
  explicit operator_client(const config::cluster_settings& cluster)
    : where_{cluster.host, cluster.port},
      own_(credentials_of(cluster, [](const std::string&) {})) {
    settings_.load<caf::io::middleman>();
    settings_.set("caf.middleman.app-identifiers",
                  std::vector<std::string>{"troupe"});
    system_.emplace(settings_);
    system_->await_actors_before_shutdown(false);
  }

  proto::Welcome ask(const proto::Hello& hello) {
    caf::scoped_actor self{*system_};
    auto admission = dial(self);
    proto::Welcome out;
    self
      ->request(admission, to_timespan(patience_with_disk),
                hello.SerializeAsString())
      .receive(
        [&](const std::string& bytes, const caf::strong_actor_ptr&) {
          if (!out.ParseFromString(bytes))
            fail("its answer cannot be read");
        },
        [&](const caf::error& why) { fail(text_of(why)); });
    return out;
  }

private:
  admission_actor dial(caf::scoped_actor& self) {
    auto dialer =
      system_->spawn<caf::detached>(control::dial, where_, own_, patience);
    admission_actor out;
    self->request(dialer, caf::infinite, caf::connect_atom_v)
      .receive(
        [&](const caf::node_id&, const caf::strong_actor_ptr& ptr,
            const std::set<std::string>& interface) {
          if (!ptr || !system_->assignable(
                        interface, system_->message_types<admission_actor>()))
            fail("is no parameter server");
          out = caf::actor_cast<admission_actor>(ptr);
        },
        [&](const caf::error& why) { fail(text_of(why)); });
    return out;
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw run_error(config::to_string(where_) + ": " + why);
  }

  config::address where_;
  transport::credentials own_;
  caf::actor_system_config settings_;
  std::optional<caf::actor_system> system_;
};

} // namespace

exit_status ctl_verb(const std::vector<std::string>& arguments) {
  if (std::ranges::count(arguments, "--help") +
        std::ranges::count(arguments, "-h") >
      0) {
    std::fputs(config::help_of({&policy_verb, 1}).c_str(), stdout);
    return exit_status::done;
  }
  auto asked = read(arguments);
  auto name = config::call_of(config::read_policy(asked.policy));
  auto settings =
    config::read_settings(asked.flags, config::process_environment());
  init_messages();
  auto hello = make_hello(settings);
  hello.set_role("operator");
  hello.set_seeks_lead(true);
  hello.clear_explicit_();
  hello.set_policy(asked.policy);
  auto answer = operator_client{settings.values.cluster}.ask(hello);
  if (!answer.accepted() && answer.later())
    throw run_error(answer.refusal());
  if (!answer.accepted())
    throw usage_error(answer.refusal());
  auto line = "policy       " + name + " from step " +
              std::to_string(answer.policy_since()) + " on";
  if (answer.has_momentum())
    line += ", momentum " + config::print(answer.momentum());
  std::printf("%s\n", line.c_str());
  return exit_status::done;
}

} // namespace troupe::app
