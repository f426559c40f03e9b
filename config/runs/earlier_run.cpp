#include "config/runs/earlier_run.hpp"

#include "config/run_folder/train_dir.hpp"
#include "config/runs/policy_change.hpp"
#include "config/sources/ini.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/values/script.hpp"

#include <algorithm>

namespace troupe::config {

namespace {

using source = origin::source;

/// Each start's own: its place in the network and on disk, and what this
/// machine's owner has to allow.
constexpr std::string_view own_to_a_start[] = {
  "cluster.host",          "cluster.port",
  "cluster.rank",          "cluster.listen",
  "cluster.advertise",     "cluster.interface",
  "cluster.rdzv-backend",  "cluster.rdzv-endpoint",
  "cluster.transport",     "cluster.insecure-network",
  "cluster.tls-dir",       "cluster.tls-cert",
  "cluster.tls-key",       "cluster.tls-ca",
  "cluster.tls-pin",       "cluster.tls-min",
  "cluster.ktls",          "cluster.token-file",
  "cluster.grace",         "training.train-dir",
  "evaluation.follow",     "evaluation.every",
  "training.allow-scripts"};

constexpr std::string_view limits[] = {"training.epochs", "training.max-steps",
                                       "training.target-accuracy",
                                       "training.target"};

bool has_key(std::span<const given> all, std::string_view section_and_name) {
  return std::ranges::any_of(
    all, [&](const given& one) { return one.what->id() == section_and_name; });
}

bool gives_a_limit(std::span<const given> own) {
  return std::ranges::any_of(limits,
                             [&](auto limit) { return has_key(own, limit); });
}

std::vector<given> read(const earlier_run& run) {
  std::vector<given> out;
  for (auto& entry : parse_ini(run.ini, run.name)) {
    auto where = run.name + ":" + std::to_string(entry.line);
    const auto& what = named_key(where, entry.section, entry.key);
    out.push_back({&what, std::move(entry.value), {source::run, run.name}});
  }
  return out;
}

} // namespace

bool decides(const settings& all) {
  return all.what == role::none || all.what == role::simulate ||
         (all.what == role::ps && !is_remote_shard(all));
}

bool goes_on(const settings& all) {
  return all.training.resume && decides(all);
}

std::vector<given> from_run(const earlier_run& run, std::span<const given> own,
                            role duty) {
  auto out = read(run);
  // The batch of a worker follows from that of all, where that is given.
  auto shared_out = has_key(out, "training.global-batch-size") ||
                    (has_key(own, "training.global-batch-size") &&
                     !has_key(own, "training.batch-size"));
  auto limited = gives_a_limit(own);
  std::erase_if(out, [&](const given& one) {
    auto id = one.what->id();
    return is_among(own_to_a_start, id) || one.what->where == scope::start ||
           (limited && is_among(limits, id)) ||
           (shared_out && id == "training.batch-size") ||
           (duty != role::simulate && one.what->section == "simulation");
  });
  if (auto kept = kept_description(run.folder))
    for (auto& one : out)
      if (one.what->id() == "training.network" && is_described(one.text))
        one.text = described_by(std::filesystem::absolute(*kept));
  return out;
}

std::vector<std::string> leave_out_replaced(std::vector<given>& own,
                                            const earlier_run& run) {
  std::vector<std::string> out;
  std::erase_if(own, [&](const given& one) {
    resolved read; // As settings are printed: sync may be written bsp.
    read.set_value(one);
    auto is_old =
      one.from.where != "--change" &&
      is_replaced(run.changes, one.what->id(), one.what->get(read.values));
    if (is_old)
      out.push_back(one.cite() +
                    " is what the run had until it was changed "
                    "while it ran; --change " +
                    one.what->id() + "=" + shown(one.text) + " goes back");
    return is_old;
  });
  return out;
}

pairs shared_settings_of(const earlier_run& run) {
  return shared_settings(resolve(read(run)).values);
}

std::vector<change> require_same(const resolved& all, const earlier_run& run,
                                 std::span<const given> changes) {
  run_description there, here;
  there.settings = shared_settings_of(run);
  here.settings = shared_settings(all.values);
  std::vector<change> out;
  for (const auto& what : differences(there, here, relation::resume)) {
    const auto& key = key_of(what.key);
    if (!has_key(changes, what.key))
      throw usage_error(
        all.cite(what.key) + ": the run at " + run.name + " has " +
        or_not_set(what.run) + "; leave it out to go on as it was" +
        (may_change(what.key) ? ", or change it with --change " + what.key +
                                  "=" + shown(key.get(all.values))
                              : ", or begin another run in another train-dir"));
    if (!may_change(what.key))
      throw usage_error(all.cite(what.key) + ": the run at " + run.name +
                        " has " + or_not_set(what.run) +
                        ", and cannot go on with another; begin another run "
                        "in another train-dir");
    out.push_back({0, 0, what.key, what.run, what.here});
  }
  return out;
}

} // namespace troupe::config
