#include "apps/launch/launch_plan.hpp"

#include "config/commands/verb.hpp"
#include "config/schema/keys.hpp"
#include "config/schema/paths.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "config/values/address.hpp"

#include <algorithm>
#include <array>

namespace troupe::app {

namespace {

using strings = std::vector<std::string>;

constexpr uint64_t most_processes = 1000;

/// What a command's node needs so that it and the servers know each other.
constexpr std::array trust_keys{
  "cluster.insecure-network", "cluster.tls-dir",   "cluster.tls-cert",
  "cluster.tls-key",          "cluster.tls-ca",    "cluster.tls-pin",
  "cluster.tls-min",          "cluster.token-file"};

const config::verb launch_verb{
  "launch",
  "launch starts a parameter server and workers on this machine, prints what "
  "they print with their names before it, and ends with the run's status. "
  "After -- come flags for all of them, or the command of a worker.",
  {},
  false,
  {{"config", "FILE", "an INI file of settings", config::file_path(), {}, true},
   {"workers",
    "N",
    "how many; not given: those of the settings",
    config::whole(1, most_processes),
    {},
    true},
   {"ps", "K", "parameter server shards, each a process",
    config::whole(1, most_processes), "1"},
   {"evaluator", "", "start an evaluator, too", config::any_text(), {}, true},
   {"evaluator-command",
    "COMMAND",
    "start an evaluator by this command of the shell",
    config::any_text(),
    {},
    true},
   {"max-restarts", "R", "how often a process that died is started again",
    config::whole(0, 1'000'000), "0"},
   {"log-dir",
    "DIR",
    "a folder for what each process prints",
    config::file_path(),
    {},
    true},
   {"log-format",
    config::alternatives<config::log_form>(),
    "the form of all lines; the same as --log-format of all nodes",
    config::any_text(),
    {},
    true}}};

/// What stands before and after the first "--".
std::pair<strings, strings> cut(const strings& arguments) {
  auto at = std::ranges::find(arguments, "--");
  return {{arguments.begin(), at},
          at == arguments.end() ? strings{} : strings{at + 1, arguments.end()}};
}

strings joined(std::initializer_list<strings> all) {
  strings out;
  for (const auto& some : all)
    out.insert(out.end(), some.begin(), some.end());
  return out;
}

/// LibTorch's computing threads wait for work by spinning, for some
/// milliseconds, on cores that the server needs meanwhile. 10,000 rounds take a
/// fraction of a millisecond, and forward and backward are as fast.
std::map<std::string, std::string>
little_spinning(const config::environment& own) {
  if (own.contains("GOMP_SPINCOUNT") || own.contains("OMP_WAIT_POLICY"))
    return {};
  return {{"GOMP_SPINCOUNT", "10000"}};
}

class planner {
public:
  planner(const config::verb_call& call, strings rest,
          const launch_facts& facts)
    : call_(call), facts_(facts) {
    auto is_command = !rest.empty() && !rest.front().starts_with('-');
    (is_command ? command_ : flags_) = std::move(rest);
    if (call_.flags.has("config"))
      flags_ = joined({{"--config", call_.flags.text("config")}, flags_});
    if (call_.flags.has("workers"))
      flags_ = joined({flags_, {"--workers", call_.flags.text("workers")}});
    if (call_.flags.has("log-format"))
      flags_ =
        joined({flags_, {"--log-format", call_.flags.text("log-format")}});
    shards_ = static_cast<uint32_t>(call_.flags.whole("ps"));
    config_ = settings(unchecked);
    if (!config_.is_explicit("cluster.port"))
      flags_ = joined({flags_, {"--port", std::to_string(facts_.free_port())}});
    make_secrets();
    trust_ = trust_of_commands();
    config_ = settings(joined({{"--role", "ps"}, of_servers_}));
  }

  launch_plan make() {
    launch_plan out;
    const auto& all = config_.values;
    out.restarts = static_cast<uint32_t>(call_.flags.whole("max-restarts"));
    out.begins_with_another =
      all.training.overwrite || all.training.resume.has_value();
    out.dumps_stacks = all.cluster.hang_dump;
    if (out.restarts > 0)
      out.train_dir = all.training.train_dir;
    if (out.restarts > 0 && out.train_dir.empty()) {
      out.train_dir = facts_.make_folder(all.training.network);
      flags_ = joined({flags_, {"--train-dir", out.train_dir.string()}});
    }
    if (call_.flags.has("log-dir"))
      out.logs = call_.flags.text("log-dir");
    for (uint32_t rank = 0; rank < shards_; ++rank)
      out.servers.push_back(server(rank));
    for (uint32_t rank = 0; rank < all.cluster.workers; ++rank)
      out.others.push_back(worker(rank));
    if (call_.flags.has("evaluator-command"))
      out.others.push_back(
        {"evaluator",
         {"/bin/sh", "-c", "exec " + call_.flags.text("evaluator-command")},
         environment()});
    else if (call_.flags.has("evaluator"))
      out.others.push_back({"evaluator", node("evaluator")});
    for (auto& one : out.others)
      one.environment.merge(little_spinning(facts_.variables));
    for (auto* some : {&out.servers, &out.others})
      for (auto& one : *some)
        one.as_json = as_json();
    return out;
  }

private:
  /// They may contradict each other: without secrets some hosts are refused.
  inline static const strings unchecked{"--role", "ps", "--print-config"};

  config::resolved settings(const strings& before) const {
    return config::parse_command_line(joined({before, flags_}),
                                      facts_.variables)
      .config;
  }

  /// Unless the user has said how nodes know each other.
  void make_secrets() {
    const auto& cluster = config_.values.cluster;
    if (cluster.encrypts() || cluster.insecure_network)
      return;
    if (cluster.token_file.empty())
      flags_ = joined({flags_, {"--token-file", facts_.secrets->make_token()}});
    if (config::is_loopback(cluster.host))
      return;
    auto own = facts_.secrets->make_identity(cluster.host);
    of_servers_ = {"--tls-cert", own.certificate, "--tls-key", own.key};
    flags_ = joined({flags_, {"--tls-pin", own.fingerprint}});
  }

  /// By key: what nodes that are no servers get as flags.
  std::map<std::string, std::string> trust_of_commands() const {
    std::map<std::string, std::string> out;
    auto all = settings(unchecked);
    for (const auto* id : trust_keys)
      if (const auto& key = config::key_of(id); all.is_explicit(id))
        out[key.variable()] = key.get(all.values);
    return out;
  }

  strings node(const std::string& role) const {
    return joined({{facts_.program, "--role", role}, flags_});
  }

  child_plan server(uint32_t rank) const {
    auto out = joined({node("ps"), of_servers_});
    if (shards_ == 1)
      return {"ps", std::move(out)};
    auto number = std::to_string(rank);
    out =
      joined({out, {"--shards", std::to_string(shards_), "--rank", number}});
    if (rank > 0)
      out = joined(
        {out,
         {"--listen", config::to_string(config::address{
                        config_.values.cluster.host, facts_.free_port()})}});
    return {"ps-" + number, std::move(out)};
  }

  child_plan worker(uint32_t rank) const {
    auto name = "worker-" + std::to_string(rank);
    auto number = std::to_string(rank);
    if (command_.empty())
      return {name, joined({node("worker"), {"--rank", number}})};
    auto variables = environment();
    variables["TROUPE_CLUSTER_RANK"] = number;
    variables["LOCAL_RANK"] = std::to_string(first_gpu() + rank);
    return {name, command_, std::move(variables)};
  }

  /// Other launchers have LOCAL_RANK, too, by which a command chooses its GPU.
  /// Where the server needs one, it has the first.
  uint32_t first_gpu() const {
    const auto* path = config::find_path(config_.values.cluster.transport);
    return path != nullptr && path->needs_gpu ? 1 : 0;
  }

  bool as_json() const {
    return config_.values.cluster.log_format == config::log_form::json;
  }

  /// The variables by which a command finds the cluster and takes its share of
  /// the cores; the share is left out if the user has set the number of
  /// threads.
  std::map<std::string, std::string> environment() const {
    const auto& cluster = config_.values.cluster;
    std::map<std::string, std::string> out{
      {"TROUPE_CLUSTER_HOST", cluster.host},
      {"TROUPE_CLUSTER_PORT", std::to_string(cluster.port)},
      {"TROUPE_TRAINER_NODE", facts_.program}};
    out.insert(trust_.begin(), trust_.end());
    if (const auto& key = config::key_of("cluster.log-format"); as_json())
      out[key.variable()] = key.get(config_.values);
    auto threads = facts_.variables.find("OMP_NUM_THREADS");
    if (threads == facts_.variables.end() || threads->second.empty())
      out["OMP_NUM_THREADS"] =
        std::to_string(std::max(1u, facts_.cores / cluster.workers));
    return out;
  }

  const config::verb_call& call_;
  const launch_facts& facts_;
  strings flags_;                            ///< Of all nodes.
  strings of_servers_;                       ///< Of servers, besides.
  std::map<std::string, std::string> trust_; ///< Variables of commands.
  strings command_; ///< Of a worker; empty: it is a node.
  uint32_t shards_ = 1;
  config::resolved config_;
};

} // namespace

std::optional<launch_plan> plan_launch(const strings& arguments,
                                       const launch_facts& facts,
                                       std::string& help) {
  auto [own, rest] = cut(arguments);
  auto call = config::read_verb(launch_verb, own);
  if (!call) {
    help = config::help_of({&launch_verb, 1});
    return std::nullopt;
  }
  return planner{*call, std::move(rest), facts}.make();
}

} // namespace troupe::app
