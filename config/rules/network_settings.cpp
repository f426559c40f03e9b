#include "config/rules/network_settings.hpp"

#include "config/schema/paths.hpp"
#include "config/sources/rendezvous.hpp"
#include "config/values/address.hpp"

#include <array>

namespace troupe::config {

namespace {

bool joins(role duty) {
  return duty == role::worker || duty == role::evaluator;
}

/// Where this node listens, and what others are told of that.
void check_places(const resolved& all) {
  const auto& cluster = all.values.cluster;
  if (!cluster.advertise.empty() && !cluster.interface.empty())
    refuse(all, "cluster.interface",
           "says what others are told, as --advertise does: give one of them");
  if (cluster.listen.empty())
    return;
  auto leads = is_peer(all.values) && !is_remote_shard(all.values);
  if (leads && parse_address(cluster.listen).port == 0 &&
      !find_meeting(cluster))
    refuse(all, "cluster.listen",
           "nobody could know the port: the peer of rank 0 takes a free one "
           "only with --rdzv-backend file or --init-method file:///PATH");
}

/// What a node shows, and by what it knows the others, must be enough for both
/// ends.
void check_trust(const resolved& all) {
  const auto& cluster = all.values.cluster;
  auto three =
    std::array{"cluster.tls-cert", "cluster.tls-key", "cluster.tls-ca"};
  for (const auto* one : three)
    if (!cluster.tls_dir.empty() && all.is_explicit(one))
      refuse(all, one, "says the same as --tls-dir: give one of them");
  if (cluster.tls_cert.empty() != cluster.tls_key.empty())
    refuse(all, cluster.tls_cert.empty() ? three[1] : three[0],
           "needs the other of --tls-cert and --tls-key");
  if (!cluster.encrypts())
    return;
  auto has_dir = !cluster.tls_dir.empty();
  auto has_own = has_dir || !cluster.tls_cert.empty();
  auto has_ca = has_dir || !cluster.tls_ca.empty();
  auto is_proven = !cluster.token_file.empty();
  auto which = has_dir   ? "cluster.tls-dir"
               : has_own ? "cluster.tls-cert"
               : has_ca  ? "cluster.tls-ca"
                         : "cluster.tls-pin";
  auto listens = !joins(all.values.what) || is_peer(all.values);
  auto dials = joins(all.values.what) || is_peer(all.values) ||
               is_remote_shard(all.values);
  if (listens && !has_own)
    refuse(all, which,
           "is not enough where others connect to: give "
           "--tls-dir, or --tls-cert and --tls-key");
  if (dials && !has_ca && cluster.tls_pin.empty())
    refuse(all, which,
           "does not say whom to believe: give --tls-ca, or "
           "--tls-pin with the parameter server's fingerprint");
  if (listens && !has_ca && !is_proven)
    refuse(all, which,
           "lets in whoever comes: give --tls-ca, of which nodes "
           "need certificates, or --token-file");
  if (dials && !has_own && !is_proven)
    refuse(all, which,
           "does not say who this node is: give --tls-dir, or "
           "--token-file with the token of the run");
}

} // namespace

// Only a node that talks to no other is exempt: without encryption, anyone on
// the network between two nodes can read and change their traffic.
void check_network(const resolved& all) {
  const auto& cluster = all.values.cluster;
  const auto& follow = all.values.evaluation.follow;
  auto alone = all.values.what == role::simulate ||
               (all.values.what == role::evaluator && follow != "ps");
  if (alone)
    return;
  auto looks_for_it = joins(all.values.what) || is_remote_shard(all.values);
  if (looks_for_it && cluster.port == 0 && !find_meeting(cluster))
    refuse(all, "cluster.port",
           "only the parameter server can take any free port");
  check_rendezvous(all);
  check_trust(all);
  check_places(all);
  const auto* wanted = find_path(cluster.transport);
  if (cluster.encrypts() && !cluster.insecure_network &&
      !is_loopback(cluster.host) && wanted != nullptr && wanted->needs_gpu)
    refuse(all, "cluster.transport", open_nccl);
  if (cluster.leaves_host())
    return;
  if (!is_loopback(cluster.host))
    refuse(all, "cluster.host", open_to_all);
  auto listens = !joins(all.values.what) || cluster.join;
  if (listens && !cluster.listen.empty() &&
      !is_loopback(parse_address(cluster.listen).host))
    refuse(all, "cluster.listen", open_to_all);
  if (listens && !cluster.advertise.empty() &&
      !is_loopback(parse_host(cluster.advertise).host))
    refuse(all, "cluster.advertise", open_to_all);
}

} // namespace troupe::config
