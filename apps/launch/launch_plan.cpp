#include "apps/launch/launch_plan.hpp"

#include "apps/launch/placement.hpp"
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

/// What a command's node needs so that it and the servers know each other.
constexpr std::array trust_keys{
  "cluster.insecure-network", "cluster.tls-dir", "cluster.tls-cert",
  "cluster.tls-key",          "cluster.tls-ca",  "cluster.tls-pin",
  "cluster.tls-min",          "cluster.ktls",    "cluster.token-file"};

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

/// The variables that are settings of nodes, or of LibTorch's threads there:
/// the environment of another host does not have them.
std::map<std::string, std::string>
settings_in(const config::environment& variables) {
  std::map<std::string, std::string> out;
  for (const auto& key : config::all_keys())
    if (auto at = variables.find(key.variable()); at != variables.end())
      out.insert(*at);
  for (const auto* name :
       {"OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"})
    if (auto at = variables.find(name); at != variables.end())
      out.insert(*at);
  return out;
}

class planner {
public:
  planner(const launch_call& launch, const launch_facts& facts)
    : call_(launch.own), hosts_(launch.hosts), facts_(facts) {
    auto is_command =
      !launch.rest.empty() && !launch.rest.front().starts_with('-');
    (is_command ? command_ : flags_) = launch.rest;
    if (call_.flags.has("config"))
      flags_ = joined({{"--config", call_.flags.text("config")}, flags_});
    if (call_.flags.has("workers"))
      flags_ = joined({flags_, {"--workers", call_.flags.text("workers")}});
    if (call_.flags.has("topology"))
      flags_ = joined({flags_, {"--topology", call_.flags.text("topology")}});
    if (call_.flags.has("log-format"))
      flags_ =
        joined({flags_, {"--log-format", call_.flags.text("log-format")}});
    shards_ = static_cast<uint32_t>(call_.flags.whole("ps"));
    config_ = settings(unchecked);
    if (config_.values.cluster.workers > most_processes)
      config::refuse(config_, "cluster.workers",
                     "launch starts at most " + std::to_string(most_processes) +
                       " workers");
    require_fitting();
    if (!hosts_.empty())
      take_address();
    if (!config_.is_explicit("cluster.port") ||
        config_.values.cluster.port == 0)
      flags_ = joined({flags_, {"--port", std::to_string(facts_.free_port())}});
    make_secrets();
    trust_ = trust_of_commands();
    if (is_of_peers())
      config_ = settings(joined({peer_flags(), of_servers_}), peer(0));
    else
      config_ = settings(joined({{"--role", "ps"}, of_servers_}));
    place();
  }

  launch_plan make() {
    launch_plan out;
    const auto& all = config_.values;
    out.restarts = static_cast<uint32_t>(call_.flags.whole("max-restarts"));
    out.no_progress_limit =
      static_cast<uint32_t>(call_.flags.whole("no-progress-limit"));
    out.grace = all.cluster.grace;
    out.dumps_stacks = all.cluster.hang_dump;
    continued_run run{all.training.train_dir,
                      all.training.overwrite ||
                        all.training.resume.has_value()};
    if (out.restarts > 0 && run.train_dir.empty()) {
      run.train_dir = facts_.make_folder(all.training.network);
      flags_ = joined({flags_, {"--train-dir", run.train_dir.string()}});
    }
    if (call_.flags.has("log-dir"))
      out.logs = call_.flags.text("log-dir");
    out.of_peers = is_of_peers();
    out.warnings = crowded_hosts();
    if (out.of_peers)
      add_peers(out);
    else
      add_star(out);
    if (out.restarts > 0 && !out.of_peers)
      out.servers.front().run = run;
    for (auto* some : {&out.servers, &out.others})
      for (auto& one : *some)
        complete(one);
    return out;
  }

private:
  /// They may contradict each other: without secrets some hosts are refused.
  inline static const strings unchecked{"--print-config"};

  config::resolved
  settings(const strings& before,
           const std::map<std::string, std::string>& more = {}) const {
    auto variables = facts_.variables;
    for (const auto& [name, value] : more)
      variables[name] = value;
    return config::parse_command_line(joined({before, flags_}), variables)
      .config;
  }

  bool is_of_peers() const {
    return config_.values.cluster.topology == config::topology_kind::peers;
  }

  void require_fitting() const {
    if (!is_of_peers())
      return;
    if (!command_.empty())
      throw usage_error("a command is a worker of a server: leave --topology "
                        "peers out, or the command behind --");
    if (shards_ > 1)
      throw usage_error("--ps " + std::to_string(shards_) +
                        ": peers have a shard each: leave it out");
    if (call_.flags.has("evaluator-command"))
      throw usage_error("--evaluator-command: peers are scored by "
                        "--evaluator, or by a node with --follow DIR");
  }

  /// Nodes find the server at the first host, unless a flag says otherwise.
  void take_address() {
    const auto& first = hosts_.front();
    if (config_.origin_of("cluster.host").from !=
        config::origin::source::flag) {
      flags_ = joined({flags_, {"--host", first.address}});
      config_ = settings(unchecked);
    }
    const auto& host = config_.values.cluster.host;
    if (!config::is_loopback(host))
      return;
    for (const auto& one : hosts_)
      if (!config::is_loopback(one.address))
        throw usage_error(one.where + ": the host " + one.address +
                          " does not reach the server at " + host +
                          ", which only the first host reaches: give that "
                          "another address, or -- --host ADDRESS");
  }

  void place() {
    std::vector<uint32_t> slots;
    for (const auto& one : hosts_)
      slots.push_back(one.slots);
    if (slots.empty())
      slots.push_back(1);
    places_ = place_workers(slots, config_.values.cluster.workers,
                            !is_of_peers() && slots.size() > 1);
  }

  size_t workers_at(size_t host) const {
    return static_cast<size_t>(std::ranges::count(places_, host));
  }

  /// How many workers before this one are on its host.
  uint32_t rank_on_host(uint32_t rank) const {
    return static_cast<uint32_t>(
      std::count(places_.begin(), places_.begin() + rank, places_.at(rank)));
  }

  strings crowded_hosts() const {
    strings out;
    for (size_t i = 0; i < hosts_.size(); ++i)
      if (auto cores = facts_.cores.at(i); cores > 0 && workers_at(i) > cores)
        out.push_back(hosts_[i].where + ": host " + hosts_[i].address +
                      " has " + config::count(cores, "core") + " for " +
                      config::count(workers_at(i), "worker") +
                      ", which slow each other down: give it fewer slots, or "
                      "fewer --workers");
    return out;
  }

  void add_star(launch_plan& out) const {
    for (uint32_t rank = 0; rank < shards_; ++rank)
      out.servers.push_back(server(rank));
    for (uint32_t rank = 0; rank < config_.values.cluster.workers; ++rank)
      out.others.push_back(worker(rank));
    if (call_.flags.has("evaluator-command"))
      out.others.push_back(
        {"evaluator",
         {"/bin/sh", "-c", "exec " + call_.flags.text("evaluator-command")},
         environment(0)});
    else if (call_.flags.has("evaluator"))
      out.others.push_back({"evaluator", node("evaluator")});
  }

  void add_peers(launch_plan& out) const {
    auto peers = config_.values.cluster.workers;
    for (uint32_t rank = 0; rank < peers; ++rank) {
      out.servers.push_back(
        {"peer-" + std::to_string(rank),
         joined({{facts_.program}, peer_flags(), flags_, of_servers_}),
         peer(rank), places_.at(rank)});
    }
    if (call_.flags.has("evaluator"))
      out.others.push_back({"evaluator",
                            joined({{facts_.program}, peer_flags(), flags_}),
                            peer(peers)});
  }

  strings peer_flags() const {
    strings out{"--role", "auto"};
    if (call_.flags.has("evaluator"))
      out.push_back("--evaluator");
    return out;
  }

  /// The environment by which a node knows its rank, as from other launchers.
  std::map<std::string, std::string> peer(uint32_t rank) const {
    auto nodes =
      config_.values.cluster.workers + (call_.flags.has("evaluator") ? 1u : 0u);
    return {{"RANK", std::to_string(rank)},
            {"WORLD_SIZE", std::to_string(nodes)}};
  }

  /// Adds what the environment of any process has.
  void complete(child_plan& one) const {
    one.as_json = as_json();
    auto is_server = !is_of_peers() && one.name.starts_with("ps");
    if (!is_server)
      one.environment.merge(little_spinning(facts_.variables));
    if (hosts_.empty())
      return;
    one.environment.merge(settings_in(facts_.variables));
    // On loopback a node counts those that share its cores by itself.
    auto sharers = std::max<size_t>(1, workers_at(one.host));
    if (!config::is_loopback(config_.values.cluster.host))
      one.environment.emplace("LOCAL_WORLD_SIZE", std::to_string(sharers));
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
    std::map<std::string, std::string> variables{
      {config::launched_variable, "1"}};
    if (shards_ == 1)
      return {"ps", std::move(out), std::move(variables)};
    auto number = std::to_string(rank);
    out =
      joined({out, {"--shards", std::to_string(shards_), "--rank", number}});
    if (rank > 0)
      out = joined(
        {out,
         {"--listen", config::to_string(config::address{
                        config_.values.cluster.host, facts_.free_port()})}});
    return {"ps-" + number, std::move(out), std::move(variables)};
  }

  child_plan worker(uint32_t rank) const {
    auto name = "worker-" + std::to_string(rank);
    auto number = std::to_string(rank);
    auto host = places_.at(rank);
    if (command_.empty())
      return {name, joined({node("worker"), {"--rank", number}}), {}, host};
    auto variables = environment(host);
    variables["TROUPE_CLUSTER_RANK"] = number;
    variables["LOCAL_RANK"] =
      std::to_string((host == 0 ? first_gpu() : 0) + rank_on_host(rank));
    return {name, command_, std::move(variables), host};
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
  std::map<std::string, std::string> environment(size_t host) const {
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
      out["OMP_NUM_THREADS"] = std::to_string(std::max<size_t>(
        1, facts_.cores.at(host) / std::max<size_t>(1, workers_at(host))));
    return out;
  }

  const config::verb_call& call_;
  const std::vector<listed_host>& hosts_; ///< Empty: this machine.
  const launch_facts& facts_;
  strings flags_;                            ///< Of all nodes.
  strings of_servers_;                       ///< Of servers, besides.
  std::map<std::string, std::string> trust_; ///< Variables of commands.
  strings command_; ///< Of a worker; empty: it is a node.
  uint32_t shards_ = 1;
  config::resolved config_;
  std::vector<size_t> places_; ///< The host of each worker.
};

} // namespace

strings command_to_join(const strings& command, const std::string& lead) {
  auto out = command;
  auto set_flag = [&](const std::string& flag, const std::string& value) {
    auto at = std::ranges::find(out, flag);
    if (at != out.end() && at + 1 != out.end())
      *(at + 1) = value;
    else
      out.insert(out.end(), {flag, value});
  };
  auto where = lead.empty() ? config::address{} : config::parse_address(lead);
  if (!where.host.empty() && !config::is_any_host(where.host)) {
    set_flag("--host", where.host);
    set_flag("--port", std::to_string(where.port));
  }
  out.push_back("--join");
  return out;
}

launch_plan plan_launch(const launch_call& call, const launch_facts& facts) {
  return planner{call, facts}.make();
}

} // namespace troupe::app
