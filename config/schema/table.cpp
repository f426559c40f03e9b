#include "config/schema/table.hpp"

#include "config/schema/known_names.hpp"
#include "config/schema/optimizers.hpp"
#include "config/schema/paths.hpp"
#include "config/schema/policies.hpp"
#include "config/schema/rules.hpp"
#include "config/text/text.hpp"

namespace troupe::config {

namespace {

using namespace rules;

std::string choices(std::span<const std::string> words) {
  return join(words, "|");
}

const std::vector<std::string>& tls_versions() {
  static const std::vector<std::string> all{"1.2", "1.3"};
  return all;
}

const std::vector<std::string>& rendezvous_backends() {
  static const std::vector<std::string> all{"static", "file"};
  return all;
}

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
         choices(rendezvous_backends()),
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
  at.add("tls-min", &s::tls_min, scope::node, choices(tls_versions()),
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
  at.add("transport", &s::transport, scope::node, choices(transport_names()),
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

void add_training(std::vector<key>& table) {
  using s = training_settings;
  section_of at{table, "training", &settings::training};
  at.add("network", &s::network, scope::cluster,
         "NAME|script:FILE|weights:FILE",
         "the model; --list-networks shows which there are; script: a "
         "TorchScript file saved from Python, the same on all nodes; weights: "
         "a safetensors file that describes what --compute external computes",
         network);
  at.add("allow-scripts", &s::allow_scripts, scope::node, "BOOL",
         "let this node run such a file, which is a program");
  at.add(
    "optimizer", &s::optimizer, scope::cluster, choices(known_optimizers()),
    "how the parameter server applies gradients", one_of{known_optimizers()});
  at.add("lr", &s::lr, scope::cluster, "X", "learning rate", above_zero);
  at.add(
    "momentum", &s::momentum, scope::cluster, "X",
    "of sgd; when not given, less with ssp and async, where late gradients "
    "act like momentum",
    below_one);
  at.add("momentum-by-workers", &s::momentum_by_workers, scope::node, "BOOL",
         "each step has the default momentum of as many workers as there are "
         "then; not given: with min-workers or max-workers and a momentum that "
         "is not given");
  at.add("nesterov", &s::nesterov, scope::cluster, "BOOL",
         "Nesterov's momentum for sgd");
  at.add("weight-decay", &s::weight_decay, scope::cluster, "X",
         "L2 penalty; decoupled with adamw", from{0, 1e15});
  at.add("weight-decay-exclude", &s::weight_decay_exclude, scope::cluster, "",
         "parameters without weight decay: those whose names end in .bias, "
         "those of normalising layers");
  at.add("param-groups", &s::param_groups, scope::cluster,
         "PATTERN=lr=X weight-decay=X momentum=X,...",
         "parameters with numbers of their own: those that match the pattern, "
         "as in '*.bias=lr=0.02 weight-decay=0'; in a file the lines of "
         "[param-groups]",
         rules::param_groups);
  at.add("ema-decay", &s::ema_decay, scope::cluster, "X",
         "keep an exponential moving average of the weights, of which this "
         "share stays at each step; evaluators score it, too; 0: none",
         below_one);
  at.add("clip-norm", &s::clip_norm, scope::cluster, "X",
         "largest L2 norm of a step's gradient; a longer one is scaled down",
         above_zero);
  at.add("outliers", &s::outliers, scope::cluster, "none|refuse(factor=X)",
         "refuse: a gradient whose L2 norm is above X times the median of the "
         "other workers' is not used, and a worker that sends nothing else is "
         "expelled; at least three workers are needed",
         rules::outliers);
  at.add("beta1", &s::beta1, scope::cluster, "X", "of adam, adamw and lamb",
         below_one);
  at.add("beta2", &s::beta2, scope::cluster, "X", "of adam, adamw and lamb",
         below_one);
  at.add("epsilon", &s::epsilon, scope::cluster, "X",
         "of adam and adamw, 1e-8 if not given, of lamb, 1e-6, and of "
         "adagrad, 1e-10",
         above_zero);
  at.add("lr-schedule", &s::lr_schedule, scope::cluster, "NAME(...)",
         "how the learning rate changes: constant, step(every=30,factor=0.1), "
         "multi-step(at=30+60+80,factor=0.1), cosine(min=0); in epochs",
         rules::lr_schedule);
  at.add("warmup-epochs", &s::warmup_epochs, scope::cluster, "X",
         "epochs in which the learning rate grows from a hundredth",
         from{0, 1e9});
  at.add("batch-size", &s::batch_size, scope::cluster, "N",
         "samples per worker and step", from{1, 1 << 24});
  at.add("global-batch-size", &s::global_batch_size, scope::cluster, "N",
         "samples of all workers together, instead of batch-size",
         from{1, 1e12});
  at.add("micro-batch-size", &s::micro_batch_size, scope::cluster, "N",
         "samples of a batch that a worker computes at once; their gradients "
         "are added up; not given: all",
         from{1, 1 << 24});
  at.add("loss", &s::loss, scope::cluster, choices(known_losses()),
         "the loss that training minimises, of the network's scores and the "
         "labels",
         one_of{known_losses()});
  at.add("label-smoothing", &s::label_smoothing, scope::cluster, "X",
         "share of a label that all classes have alike, in training",
         below_one);
  at.add(
    "autocast", &s::autocast, scope::cluster, "",
    "bf16: forward in training computes convolutions and products in "
    "bfloat16; fp16: in half precision, on GPUs alone, with a scaled loss; "
    "auto: bf16 if the workers measure that this is faster");
  at.add("epochs", &s::epochs, scope::cluster, "N",
         "stop after so many passes over the data, or at max-steps or a "
         "target, whichever comes first; when none of the three is given: " +
           std::to_string(default_epochs),
         at_least_one);
  at.add("max-steps", &s::max_steps, scope::cluster, "N",
         "stop after so many updates of the weights", at_least_one);
  at.add("target-accuracy", &s::target_accuracy, scope::cluster, "A",
         "stop when the evaluator has seen this share of right answers", share);
  at.add("target", &s::target, scope::cluster, "METRIC>=X|<=X",
         "stop when the evaluator has seen this value of a metric, such as "
         "accuracy>=0.97 or loss<=0.1",
         rules::metric_target);
  at.add("seed", &s::seed, scope::cluster, "N", "of weights and of data order");
  at.add("device", &s::device, scope::node, "cpu",
         "where this process computes: cpu | cuda (a worker or evaluator: a "
         "GPU that no other process has taken) | cuda:N | auto (such a GPU, or "
         "else cpu)",
         device);
  at.add("compute", &s::compute, scope::node, "",
         "who computes gradients: native: this process; external: one that "
         "connects to the compute-socket, such as a Python program");
  at.add("compute-socket", &s::compute_socket, scope::node, "PATH",
         "where a worker waits for that process: a Unix socket that it makes",
         path);
  at.add("compute-timeout", &s::compute_timeout, scope::node, "SECONDS",
         "how long a worker waits for that process to connect, and for each "
         "gradient; then it ends",
         seconds);
  at.add("dtype", &s::dtype, scope::cluster, "",
         "type of weights and gradients");
  at.add("buffers", &s::buffers, scope::cluster, "",
         "batch normalisation: whose running statistics the parameter server "
         "takes; local: workers keep their own");
  at.add("threads", &s::threads, scope::node, "N",
         "threads of one computing actor; 0: its share of the machine",
         from{0, 4096});
  at.add("memory-limit", &s::memory_limit, scope::node, "MIB",
         "most memory for tensors that a process keeps between steps; 0: three "
         "quarters of what the machine or its container has",
         from{0, 1e12});
  at.add("train-dir", &s::train_dir, scope::node, "DIR",
         "the run directory; not given: runs/<network>-<n>, new each time",
         path);
  at.add("init", &s::init, scope::node, "FILE",
         "parameter server: the first weights, from a safetensors file or one "
         "of torch.save (.pt, .pth, .pth.tar), a state dict or a checkpoint "
         "that holds one",
         path);
  at.add("init-skip", &s::init_skip, scope::node, "PATTERN[,PATTERN...]",
         "tensors that begin as usual, such as 'fc.*' where the number of "
         "classes differs",
         rules::key_patterns);
  at.add("freeze", &s::freeze, scope::cluster, "PATTERN[,PATTERN...]",
         "tensors that stay as they begin, such as 'layer?.*': no gradients "
         "are computed or sent for them, and batch normalisation there keeps "
         "its statistics",
         rules::key_patterns);
  at.add("resume", &s::resume, scope::start, "auto|best|PATH",
         "go on from a checkpoint; auto: the newest of the train-dir, or a "
         "fresh start when there is none; best: that of its best score",
         path)
    .alone = "auto";
  at.add("overwrite", &s::overwrite, scope::start, "BOOL",
         "remove the run that the train-dir holds");
  at.add("tape", &s::tape, scope::node, "BOOL",
         "write all that the parameter server is told and decides to "
         "tape-<life>.pb in the run directory, for --replay and calibrate");
}

void add_parallel(std::vector<key>& table) {
  using s = parallel_settings;
  section_of at{table, "parallel", &settings::parallel};
  at.add("mode", &s::mode, scope::cluster, "",
         "data-parallel: each worker computes the whole network; "
         "remote-forward: the shards compute what [placement] gives them, and "
         "workers send activations; pipeline: a worker computes in stages");
  at.add("stages", &s::stages, scope::cluster, "K",
         "pipeline: stages of a worker, cut where they cost the same; or a "
         "line of [placement] for each",
         from{1, 1024});
  at.add("micro-batches", &s::micro_batches, scope::cluster, "M",
         "pipeline: parts of a batch that are on their way at the same time; "
         "not given: " +
           std::to_string(default_micro_batches),
         from{1, 65536});
  at.add("schedule", &s::schedule, scope::cluster, "",
         "pipeline: gpipe: all micro-batches forward, then all backward; 1f1b: "
         "at most K between forward and backward");
  at.add("replicas", &s::replicas, scope::cluster, "R",
         "data-parallel: copies of the network in a worker, each with threads "
         "of its own; each batch is divided among them",
         from{1, 4096});
  section_of placed{table, "parallel", &settings::training};
  placed.add("placement", &training_settings::placement, scope::cluster,
             "PATTERN=ps:RANK|worker[,...]",
             "where modules of the network live; in a file, one line each in "
             "[placement]",
             rules::placement);
}

void add_data(std::vector<key>& table) {
  using s = data_settings;
  section_of at{table, "data", &settings::data};
  at.add("dataset", &s::dataset, scope::cluster,
         "NAME|synthetic(...)|tar(...)|external(...)",
         "what is learned; --list-datasets shows which there are; "
         "synthetic(shape=3x32x32,classes=10,samples=5000) is made up; "
         "external(samples=N,id=NAME): only processes of --compute external "
         "have the samples",
         dataset);
  at.add("data-dir", &s::data_dir, scope::node, "DIR",
         "folder of the file-based data sets", path);
  at.add("augment", &s::augment, scope::cluster, "auto|none|STEP+STEP...",
         "what is changed at random in samples for training: crop, flip, "
         "resized-crop, jitter; auto: what is usual for the data set",
         rules::augment);
  at.add("image-size", &s::image_size, scope::cluster, "N",
         "side of the squares that images of any size are made into (folder, "
         "tar)",
         from{1, 4096});
  at.add("on-bad-sample", &s::on_bad_sample, scope::cluster, "",
         "what becomes of a damaged image: fail ends the run; skip takes "
         "another in training, none in evaluation");
  at.add("sharding", &s::sharding, scope::cluster, "",
         "which samples a worker gets: leased: the next ones; static: every "
         "N-th of the epoch's order, from its rank on; local: those of its own "
         "files");
  at.add("drop-last", &s::drop_last, scope::cluster, "BOOL",
         "static: leave out the last samples of an epoch's order that N "
         "workers cannot share evenly, instead of filling up with the first");
}

/// "ssp", or "ssp, mine" where several policies have this parameter.
std::string owners_of(const parameter& entry) {
  std::vector<std::string> owners;
  for (const auto& each : known_policies())
    if (each.schema.find(entry.name) != nullptr)
      owners.push_back(each.schema.name);
  return join(owners, ", ");
}

/// "; bsp is sync", for each other name of a policy.
std::string other_names() {
  std::string out;
  for (const auto& each : known_policies())
    for (const auto& name : each.other_names)
      out += "; " + name + " is " + each.schema.name;
  return out;
}

/// A parameter of policies as a key of its own.
void add_parameter(std::vector<key>& table, const parameter& option) {
  auto& entry = table.emplace_back();
  entry.section = "policy";
  entry.name = entry.flag = option.name;
  entry.value = option.placeholder;
  entry.help = owners_of(option) + ": " + option.help;
  entry.where = scope::cluster;
  entry.get = [option](const settings& all) {
    auto given = all.policy.parameters.find(option.name);
    return given == all.policy.parameters.end() ? option.by_default
                                                : given->second;
  };
  entry.set = [option](settings& all, std::string_view text) {
    auto value = text.empty() ? option.by_default : option.range.read(text);
    if (text.empty() && !option.by_default.empty())
      throw bad_value("needs a value");
    if (value == option.by_default)
      all.policy.parameters.erase(option.name);
    else
      all.policy.parameters.insert_or_assign(option.name, value);
  };
}

void add_policy(std::vector<key>& table) {
  using s = policy_settings;
  section_of at{table, "policy", &settings::policy};
  at.add("name", &s::name, scope::cluster, choices(policy_names()),
         "who waits for whom, also with parameters: NAME(KEY=VALUE,...)" +
           other_names(),
         rules::policy)
    .flag = "policy";
  for (const auto& each : policy_parameters())
    add_parameter(table, each);
}

void add_evaluation(std::vector<key>& table) {
  using s = evaluation_settings;
  section_of at{table, "evaluation", &settings::evaluation};
  at.add("eval-freq", &s::eval_freq, scope::cluster, "N|epoch",
         "steps between evaluations, or one at the end of each epoch");
  at.add("eval-batch-size", &s::eval_batch_size, scope::node, "N",
         "samples that the evaluator takes at once", from{1, 1 << 24});
  at.add("eval-timeout", &s::eval_timeout, scope::node, "SECONDS",
         "wait for the last score when the run ends", seconds);
  at.add("follow", &s::follow, scope::node, "ps|DIR",
         "evaluator: live weights of the parameter server, or a folder of "
         "checkpoints",
         path);
  at.add(
    "every", &s::every, scope::node, "N",
    "with --follow DIR: score each checkpoint of a step that N divides, in "
    "their order; not given: the newest",
    from{1, 1'000'000'000});
}

void add_checkpoint(std::vector<key>& table) {
  using s = checkpoint_settings;
  section_of at{table, "checkpoint", &settings::checkpoint};
  at.add("checkpoint-freq", &s::checkpoint_freq, scope::node, "N",
         "steps between checkpoints", at_least_one);
  at.add("keep", &s::keep, scope::node, "N", "newest checkpoints that are kept",
         at_least_one);
  at.add("keep-best", &s::keep_best, scope::node, "",
         "keep the weights of the best score in best.safetensors; full: and a "
         "checkpoint of that version, for --resume best")
    .alone = "true";
  at.add("best-by", &s::best_by, scope::node, "max(M)|min(M)",
         "the metric M whose highest or lowest value is the best; not given: "
         "that of the target, else max(accuracy), else min(loss)",
         rules::metric_order);
}

void add_simulation(std::vector<key>& table) {
  using s = simulation_settings;
  section_of at{table, "simulation", &settings::simulation};
  at.add("clock", &s::clock, scope::node, "",
         "real: threads and real time; virtual: one thread, bit-reproducible");
  at.add("compute-time", &s::compute_time, scope::node, "DIST",
         "virtual clock: seconds that a gradient takes, such as constant(1) or "
         "gamma(mean=1,cv=0.1)",
         rules::distribution);
  at.add("link-rate", &s::link_rate, scope::node, "X",
         "virtual clock: bytes per second of a worker's link", rate);
  at.add("link-latency", &s::link_latency, scope::node, "SECONDS",
         "virtual clock: delay of a message", delay);
  static const std::vector<std::string> gradients{"real", "none"};
  at.add("gradients", &s::gradients, scope::node, choices(gradients),
         "virtual clock: none schedules only, nothing is trained",
         one_of{gradients});
  at.add("faults", &s::faults, scope::node, "FILE|random(SEED)",
         "virtual clock: what breaks and when; every promise of the cluster is "
         "checked meanwhile",
         rules::faults);
}

} // namespace

std::vector<key> make_table() {
  std::vector<key> table;
  add_cluster(table);
  add_training(table);
  add_parallel(table);
  add_data(table);
  add_policy(table);
  add_evaluation(table);
  add_checkpoint(table);
  add_simulation(table);
  return table;
}

} // namespace troupe::config
