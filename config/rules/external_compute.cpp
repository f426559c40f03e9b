#include "config/rules/external_compute.hpp"

#include "config/text/failure.hpp"
#include "config/values/external.hpp"
#include "config/values/script.hpp"

#include <array>

namespace troupe::config {

namespace {

bool computes_elsewhere(const settings& all) {
  return all.training.compute == compute_kind::external;
}

/// Settings of a native computation; the other process decides for itself.
constexpr std::array<std::string_view, 8> of_native{
  "training.micro-batch-size", "training.loss",     "training.label-smoothing",
  "training.autocast",         "training.buffers",  "parallel.mode",
  "parallel.replicas",         "parallel.placement"};

/// Throws unless these have their defaults. @param cite How a line names one.
void require_defaults(const settings& all, const auto& cite) {
  for (auto id : of_native)
    if (key_of(id).get(all) != key_of(id).get(settings{}))
      throw usage_error(cite(id) +
                        ": is for a network that Troupe computes; with "
                        "--compute external leave it out");
}

/// Throws unless a replay computes where the run did: in a program or here.
void require_program(const resolved& all) {
  auto described = is_described(all.values.training.network);
  if (described && !computes_elsewhere(all.values))
    refuse(all, "training.network",
           "a program computed the gradients of this run, and only that can "
           "do so again: start it with Worker(..., replay=...), or name its "
           "socket with --compute external --compute-socket PATH");
  if (!described && computes_elsewhere(all.values))
    refuse(all, "training.compute",
           "Troupe computed the gradients of this run, and does so again: "
           "leave it out");
}

void require_simulable(const resolved& all) {
  const auto& training = all.values.training;
  if (computes_elsewhere(all.values))
    refuse(all, "training.compute",
           "--simulate computes in this process; start a "
           "parameter server and workers");
  if (is_described(training.network))
    refuse(all, "training.network",
           "is computed by other processes, which a run in one "
           "process, or a replay, does not have; start a parameter "
           "server and workers");
  if (is_external(all.values.data.dataset))
    refuse(all, "data.dataset",
           "only processes of --compute external have the "
           "samples; start a parameter server and workers");
}

void check_participant(const resolved& all) {
  const auto& training = all.values.training;
  if (!computes_elsewhere(all.values)) {
    if (!training.compute_socket.empty())
      refuse(all, "training.compute-socket", "is for --compute external");
    return;
  }
  if (training.compute_socket.empty())
    refuse(all, "training.compute",
           "say where the process is to connect, with "
           "--compute-socket PATH");
  if (is_peer(all.values) || all.values.cluster.join)
    refuse(all, "training.compute",
           "is for workers beside a parameter server; leave "
           "--topology peers out");
  if (all.values.what == role::evaluator &&
      all.values.evaluation.follow != "ps")
    refuse(all, "evaluation.follow",
           "with --compute external an evaluator gets its "
           "weights from the parameter server; leave it out, or score a "
           "checkpoint with troupe.Run(DIR).state_dict(STEP)");
}

} // namespace

void check_external(const resolved& all) {
  const auto& values = all.values;
  if (all.is_replay)
    require_program(all);
  else if (values.what == role::simulate)
    require_simulable(all);
  if (values.what == role::worker || values.what == role::evaluator ||
      is_peer(values) || (all.is_replay && computes_elsewhere(values)))
    check_participant(all);
  auto decides = values.what == role::ps && !is_remote_shard(values);
  if (!decides || !is_described(values.training.network))
    return;
  require_defaults(
    values, [&](std::string_view id) { return all.cite(std::string{id}); });
  if (!is_external(values.data.dataset))
    refuse(all, "training.network",
           "who computes it has the samples; say how many there "
           "are, with --dataset 'external(samples=N,id=NAME)'");
}

void require_who_computes(const settings& joined) {
  if (joined.what == role::ps) // A shard computes no gradients.
    return;
  if (computes_elsewhere(joined)) {
    if (joined.what == role::evaluator)
      return;
    require_defaults(joined, [](std::string_view id) {
      return "the parameter server's setting " + std::string{id};
    });
    return;
  }
  if (is_described(joined.training.network))
    throw usage_error("--network " + joined.training.network +
                      ": is computed by another process; start this node with "
                      "--compute external");
  if (is_external(joined.data.dataset))
    throw usage_error("--dataset " + joined.data.dataset +
                      ": only processes of --compute external have the "
                      "samples");
}

} // namespace troupe::config
