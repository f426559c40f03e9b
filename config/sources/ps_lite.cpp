#include "config/sources/ps_lite.hpp"

#include "config/sources/launcher_table.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/values/address.hpp"

namespace troupe::config {

namespace {

constexpr const char* role_variable = "DMLC_ROLE";
constexpr const char* workers_variable = "DMLC_NUM_WORKER";
constexpr const char* servers_variable = "DMLC_NUM_SERVER";
constexpr const char* host_variable = "DMLC_PS_ROOT_URI";
constexpr const char* port_variable = "DMLC_PS_ROOT_PORT";

given give_by_variable(const char* id, const std::string& text,
                       const char* variable) {
  return {&key_of(id), text, {origin::source::environment, variable}};
}

/// Where a shard listens: at a free port that its lead tells to others.
given place_of_server(const environment& all, const std::string& scheduler) {
  if (auto host = find_fact(all, {"DMLC_NODE_HOST"}))
    return give_by_variable("cluster.listen", to_string(address{host->text, 0}),
                            "DMLC_NODE_HOST");
  return give_by_variable("cluster.listen",
                          is_loopback(scheduler) ? "127.0.0.1:0" : "0.0.0.0:0",
                          role_variable);
}

/// Which of the processes of its role this is.
struct own_number {
  std::optional<uint32_t> value{};
  std::string cited{}; ///< "DMLC_WORKER_ID=1"
};

/// Without a number of the role itself the launcher's counts, which numbers
/// workers first and then servers.
own_number read_own_number(const environment& all, const char* of_role,
                           uint32_t before) {
  if (auto own = find_fact(all, {of_role}))
    return {number_of(all, own->name), own->cite()};
  auto task = find_fact(all, {"DMLC_TASK_ID"});
  if (!task)
    return {};
  auto number = number_of(all, task->name);
  if (number < before)
    throw usage_error(task->cite() + ": is one of " + count(before, "worker") +
                      ", but this is a server: set " + of_role + ", from 0 on");
  return {number - before, task->cite()};
}

own_number number_of_server(const environment& all, const named_role& named) {
  auto servers = named.shards - 1;
  auto out = read_own_number(all, "DMLC_SERVER_ID", named.workers);
  if (!out.value && servers == 1)
    out.value = 0;
  if (!out.value)
    throw usage_error("DMLC_ROLE=server: which of " + std::to_string(servers) +
                      " servers this is, is not said: set DMLC_SERVER_ID, "
                      "from 0 on");
  return out;
}

void require_below(const own_number& number, uint32_t most,
                   const std::string& name) {
  if (number.value && *number.value >= most)
    throw usage_error((number.cited.empty() ? name : number.cited) +
                      ": there are only " + count(most, name));
}

/// Sets role and rank; returns what says which process this is.
std::string read_role(named_role& named, const environment& all,
                      const variable_fact& from) {
  auto servers = named.shards - 1;
  if (from.text == "worker") {
    auto number = read_own_number(all, "DMLC_WORKER_ID", 0);
    require_below(number, named.workers, from.text);
    named.what = role::worker;
    named.rank = number.value;
    return number.cited;
  }
  named.what = role::ps;
  if (from.text == "server") {
    auto number = number_of_server(all, named);
    require_below(number, servers, from.text);
    named.rank = *number.value + 1;
    return number.cited;
  }
  if (from.text != "scheduler")
    throw usage_error(from.cite() + ": must be scheduler, server or worker");
  if (servers > 0)
    named.rank = 0;
  return "";
}

} // namespace

std::optional<launch> read_ps_lite(const environment& variables) {
  auto from = find_fact(variables, {role_variable});
  if (!from)
    return std::nullopt;
  auto host = find_fact(variables, {host_variable});
  if (!host)
    throw usage_error(from->cite() + ": DMLC_PS_ROOT_URI does not say where "
                                     "the scheduler is; dmlc-submit starts "
                                     "one with --num-servers 1 or more");
  named_role named;
  named.workers = number_of(variables, workers_variable);
  named.shards = number_of(variables, servers_variable) + 1;
  auto number = read_role(named, variables, *from);
  launch out;
  out.facts = {from->cite()};
  if (!number.empty())
    out.facts.push_back(number);
  for (const auto* each : {workers_variable, servers_variable})
    out.facts.push_back(find_fact(variables, {each})->cite());
  out.meeting_point.push_back(
    give_by_variable("cluster.host", host->text, host_variable));
  if (auto port = find_fact(variables, {port_variable}))
    out.meeting_point.push_back(
      give_by_variable("cluster.port", port->text, port_variable));
  if (from->text == "server")
    out.meeting_point.push_back(place_of_server(variables, host->text));
  if (auto tries = find_fact(variables, {"DMLC_NUM_ATTEMPT"});
      tries && number_of(variables, tries->name) > 0)
    out.restart = tries->cite();
  out.named = named;
  return out;
}

void assign_named_role(resolved& all, const named_role& named) {
  auto set_value = [&](const char* id, uint32_t number, const char* variable) {
    if (all.is_explicit(id) &&
        key_of(id).get(all.values) != std::to_string(number))
      refuse(all, id,
             "does not fit the launcher, which makes " +
               std::to_string(number));
    all.set_value(give_by_variable(id, std::to_string(number), variable));
  };
  const auto& cluster = all.values.cluster;
  if (cluster.topology == topology_kind::peers)
    refuse(all, "cluster.topology",
           "DMLC_ROLE makes servers and workers: leave one of both out");
  if (cluster.evaluator.value_or(false))
    refuse(all, "cluster.evaluator",
           "DMLC_ROLE knows no evaluator: leave this out, and start one with "
           "--role evaluator");
  set_value("cluster.workers", named.workers, workers_variable);
  set_value("cluster.shards", named.shards, servers_variable);
  if (named.rank)
    set_value("cluster.rank", *named.rank, role_variable);
  fill_in_batch_size(all);
  all.values.what = named.what;
}

} // namespace troupe::config
