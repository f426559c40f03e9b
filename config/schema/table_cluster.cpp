// The keys of [cluster].

#include "config/schema/known_names.hpp"
#include "config/schema/paths.hpp"
#include "config/schema/rules.hpp"
#include "config/schema/table.hpp"

namespace troupe::config {

using namespace rules;

namespace {

const std::vector<std::string>& tls_versions() {
  static const std::vector<std::string> all{"1.2", "1.3"};
  return all;
}

const std::vector<std::string>& rendezvous_backends() {
  static const std::vector<std::string> all{"static", "file"};
  return all;
}

} // namespace

void add_cluster(std::vector<key>& table) {
  using s = cluster_settings;
  section_of at{table, "cluster", &settings::cluster};
  at.add("host", &s::host, scope::node, "HOST",
         "where the parameter server listens and everybody connects", host);
  at.add("port", &s::port, scope::node, "PORT",
         "its port; 0 lets the parameter server take a free one");
  at.add("run-id", &s::run_id, scope::cluster, "NAME",
         "a name for the run; a node that is given another one is refused");
  at.add("workers", &s::workers, scope::cluster, "N",
         "size of the cluster that training starts with; MIN:MAX sets "
         "min-workers and max-workers, too",
         from{1, 100000});
  at.add("min-workers", &s::min_workers, scope::node, "MIN",
         "training starts with so many workers when join-timeout is over, and "
         "waits while fewer are there",
         from{1, 100000});
  at.add("max-workers", &s::max_workers, scope::node, "MAX",
         "training starts at once with so many workers, and no further one is "
         "let in",
         from{1, 100000});
  at.add("shards", &s::shards, scope::cluster, "K", "parameter server shards",
         from{1, 1024});
  at.add(
    "rank", &s::rank, scope::node, "R",
    "this node's rank among its role's; not given: in the order of joining");
  at.add(
    "listen", &s::listen, scope::node, "HOST:PORT",
    "where this node listens; not given: at [cluster] host and port, which "
    "the others dial, or for a peer with a rank above 0 at a free port",
    host_and_port);
  at.add("advertise", &s::advertise, scope::node, "HOST[:PORT]",
         "where this node says that others reach it, behind address "
         "translation",
         rules::advertise);
  at.add("interface", &s::interface, scope::node, "NAME",
         "the network interface whose address others are told, instead of "
         "--advertise");
  at.add(
    "topology", &s::topology, scope::node, "",
    "peers: every node is a worker and has a shard of the weights, none is "
    "only a server; with --role auto or --simulate");
  at.add("init-method", &s::init_method, scope::node, "URL",
         "where the nodes of a --role auto launch meet: env://, "
         "tcp://HOST:PORT or file:///PATH",
         rules::init_method);
  at.add("rdzv-backend", &s::rdzv_backend, scope::node,
         words_of_choice(rendezvous_backends()),
         "how a node finds the parameter server. static: it is given the "
         "address; file: the server writes it into a folder that all see",
         one_of{rendezvous_backends()});
  at.add("rdzv-endpoint", &s::rdzv_endpoint, scope::node, "HOST:PORT|DIR",
         "static: the same as host and port; file: the folder, where runs are "
         "told apart by --rdzv-id NAME, another spelling of --run-id",
         rules::path);
  at.add("join", &s::join, scope::node, "BOOL",
         "with --topology peers: joins a run that is under way, as a worker; "
         "the next time that the weights are dealt out it gets its part");
  at.add("reshard-on-join", &s::reshard_on_join, scope::node, "BOOL",
         "with --topology peers: deals out the weights anew, after a "
         "checkpoint, when a node has joined");
  at.add(
    "evaluator", &s::evaluator, scope::node, "BOOL",
    "whether the cluster has an evaluator; not given: --simulate brings one, "
    "--role auto makes none");
  at.add("insecure-network", &s::insecure_network, scope::node, "BOOL",
         "allow an address other than loopback, without encryption or "
         "authentication");
  at.add("tls-dir", &s::tls_dir, scope::node, "DIR",
         "encrypt connections: the folder of this node's tls.crt and tls.key, "
         "and of the ca.crt that it believes, as trainer_node pki makes them",
         rules::path);
  at.add("tls-cert", &s::tls_cert, scope::node, "FILE",
         "instead of --tls-dir: the certificate of this node", rules::path);
  at.add("tls-key", &s::tls_key, scope::node, "FILE", "its key", rules::path);
  at.add("tls-ca", &s::tls_ca, scope::node, "FILE",
         "the certificate authorities that this node believes", rules::path);
  at.add("tls-pin", &s::tls_pin, scope::node, "SHA256",
         "instead of --tls-ca, at nodes that only connect: the fingerprint of "
         "the parameter server's certificate, as pki show prints it");
  at.add("tls-min", &s::tls_min, scope::node, words_of_choice(tls_versions()),
         "the lowest version of TLS", one_of{tls_versions()});
  at.add("ktls", &s::ktls, scope::node, "BOOL",
         "let the kernel encrypt (kTLS), where it can");
  at.add("token-file", &s::token_file, scope::node, "FILE",
         "holds the token of the run, which a node without a certificate must "
         "show; the same at all nodes",
         rules::path);
  at.add("join-timeout", &s::join_timeout, scope::node, "SECONDS",
         "wait for the whole cluster; then training starts with one worker or "
         "more, or with min-workers",
         seconds);
  at.add("connect-timeout", &s::connect_timeout, scope::node, "SECONDS",
         "how long a node tries to reach the parameter server", seconds);
  at.add("liveness-timeout", &s::liveness_timeout, scope::node, "SECONDS",
         "silence after which a peer counts as dead", seconds);
  at.add("hang-timeout", &s::hang_timeout, scope::node, "SECONDS",
         "how long a worker may take for a gradient while others push, until "
         "it counts as lost; 0: any time; not given: ten times what its own "
         "take, at least 5",
         from{0, 1e9});
  at.add(
    "grace", &s::grace, scope::node, "SECONDS",
    "a node that is told to stop (SIGTERM, SIGUSR1) ends within this time: "
    "the parameter server after a checkpoint and the summary, a worker "
    "after the gradient that it computes",
    seconds);
  at.add("hang-dump", &s::hang_dump, scope::node, "BOOL",
         "a Python program that hangs writes the stacks of its threads to its "
         "log, before it counts as lost or a launch kills it");
  at.add("transport", &s::transport, scope::node,
         words_of_choice(transport_names()),
         "the path that tensors take; auto: the best that both ends share",
         one_of{transport_names()});
  at.add(
    "compression", &s::compression, scope::cluster,
    "none|fp16|bf16|int8|topk(share=X)",
    "how gradients are made smaller for their way to the parameter server; "
    "what int8 and topk leave out is added to the next gradient",
    rules::compression);
  at.add("overlap", &s::overlap, scope::node, "",
         "on a path between hosts, gradients leave while backward makes them, "
         "and forward begins before all weights are there; auto: where "
         "sending takes long beside computing");
  at.add("log-format", &s::log_format, scope::start, "",
         "the form of the lines that this process prints; json: an object for "
         "each, with time, level, role, rank, host and process id");
}

} // namespace troupe::config
