#pragma once
// Every setting of a run as a validated value, with its default, unit and
// consequences. keys.hpp says how a value is given (flag, INI key,
// environment); the precedence is default < file < environment < flag. Plain
// values: each actor holds its own copy or a const reference.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::config {

enum class role : uint8_t {
  none,
  simulate, ///< The whole cluster in this process (`--simulate`).
  ps,
  worker,
  evaluator,
  automatic ///< Taken from the launch environment.
};

enum class clock_kind : uint8_t { real, virtual_time };
enum class scalar_type : uint8_t { float32, float64 };

/// What happens to the running statistics (batch normalisation's means and
/// variances) that workers push with their gradients.
enum class buffers_rule : uint8_t {
  average, ///< The server takes the mean of a step; workers get it.
  first,   ///< The server takes those of a step's first gradient.
  local    ///< As average, but each worker continues from its own.
};

/// What happens when a sample cannot be read.
enum class bad_sample_rule : uint8_t {
  fail, ///< The run ends with a line about it.
  skip  ///< Training takes another sample, evaluation omits it.
};

/// Which samples a worker's leases are taken from.
enum class sharding_kind : uint8_t {
  leased, ///< All: the next worker gets the next samples.
  fixed,  ///< Every N-th of the epoch's order, from its rank on.
  local   ///< Those of its own files.
};

/// Parameters without weight decay.
enum class decay_exclusion : uint8_t {
  none,
  bias,         ///< Those whose names end in `.bias`.
  norm,         ///< Those of normalising layers.
  bias_and_norm ///< Both.
};

/// The type in which forward computes.
enum class autocast_kind : uint8_t {
  none,     ///< The type of the weights.
  bf16,     ///< Convolutions and products in bfloat16.
  fp16,     ///< The same in half precision, with a scaled loss; on GPUs.
  automatic ///< bf16 if that is faster; decided before the run begins.
};

/// Who computes which part of the network.
enum class parallel_mode : uint8_t {
  data_parallel,  ///< Each worker all of it.
  remote_forward, ///< The owners of its parts; a worker sends activations.
  pipeline        ///< The stages of a worker, one part each.
};

/// Who computes the gradients of a worker.
enum class compute_kind : uint8_t {
  native,  ///< This process, with LibTorch.
  external ///< Another one, over a Unix socket.
};

/// In which order a stage of a pipeline takes the micro-batches of a batch.
enum class pipeline_order : uint8_t {
  gpipe,                   ///< All forward, then all backward.
  one_forward_one_backward ///< Backward as soon as it can be.
};

/// What is kept of the version with the best score.
enum class best_rule : uint8_t {
  nothing,
  weights, ///< best.safetensors
  full     ///< And the checkpoint of that version.
};

/// Whether tensors are sent while they are computed, and used while they
/// arrive.
enum class overlap_rule : uint8_t {
  automatic, ///< Where sending takes long compared with computing.
  on,
  off
};

/// Which processes have shards of the weights.
enum class topology_kind : uint8_t {
  star, ///< Parameter servers, which do not train.
  peers ///< Every node is a worker and has a shard; node 0 also leads.
};

/// The form of the lines that a process prints.
enum class log_form : uint8_t {
  plain, ///< Text for people.
  json   ///< An object for each line, for programs that collect logs.
};

/// [cluster] Where the cluster meets and how long it waits.
struct cluster_settings {
  std::string host = "127.0.0.1"; ///< Where the PS listens; all connect to it.
  uint16_t port = 4242;
  /// A name that users give the run; files compare its random identity instead.
  std::string run_id;
  uint32_t workers =
    4; ///< N, the size of the cluster that training starts with.
  /// Below this number the run waits; not given: 1.
  std::optional<uint32_t> min_workers;
  /// Beyond this number workers are refused; not given: none is.
  std::optional<uint32_t> max_workers;
  uint32_t shards = 1;          ///< Parameter server shards.
  std::optional<uint32_t> rank; ///< This node's; else the lead assigns it.
  std::string listen;    ///< HOST:PORT that this node binds, if not the above.
  std::string advertise; ///< HOST or HOST:PORT that others are told.
  std::string interface; ///< Whose address others are told.
  topology_kind topology = topology_kind::star;
  /// Where nodes of a `--role auto` launch meet, as torch spells it: env:// or
  /// tcp://HOST:PORT.
  std::string init_method = "env://";
  /// How a node finds the lead: static, at a given address; file, in a folder
  /// that all nodes see.
  std::string rdzv_backend = "static";
  std::string rdzv_endpoint; ///< static: HOST:PORT; file: the folder.
  bool join = false; ///< A peer of a run that is under way, at first a worker.
  bool reshard_on_join = false; ///< It gets a shard as soon as it has come.
  /// Whether the cluster has an evaluator. If not given, `--simulate` has one,
  /// and no process of a `--role auto` launch is one.
  std::optional<bool> evaluator;
  bool insecure_network = false; ///< Allow plain connections beyond loopback.
  // What this node shows to others, and by what it knows them. All empty:
  // connections are not encrypted.
  std::string tls_dir; ///< Has tls.crt, tls.key and ca.crt.
  std::string tls_cert, tls_key, tls_ca;
  std::string tls_pin;          ///< Fingerprint of the server's certificate.
  std::string tls_min = "1.3";  ///< The lowest version: 1.2 or 1.3.
  bool ktls = false;            ///< The kernel encrypts, where it can.
  std::string token_file;       ///< Holds what proves that a node may join.
  double join_timeout = 60;     ///< s until training starts with fewer workers.
  double connect_timeout = 60;  ///< s that a worker tries to reach the PS.
  double liveness_timeout = 15; ///< s of silence until a peer counts as dead.
  /// s that a turn of a worker may take; 0: any time; not given: a multiple of
  /// its own turns.
  std::optional<double> hang_timeout;
  /// s in which a node that is told to stop has to end.
  double grace = 25;
  /// Whether a program that is given up since it hangs writes its stacks first.
  bool hang_dump = true;
  std::string transport = "auto"; ///< auto | inproc | shm | stream | chunked
  /// How gradients are compressed: none | fp16 | bf16 | int8 | topk(share=...)
  std::string compression = "none";
  overlap_rule overlap = overlap_rule::automatic; ///< For workers.
  log_form log_format = log_form::plain;

  /// Whether the number of workers varies between limits. Peers have their own
  /// way when their number changes.
  bool is_elastic() const {
    return (min_workers || max_workers) && topology == topology_kind::star;
  }

  /// The fewest workers that a step is made with.
  uint32_t fewest_workers() const { return min_workers.value_or(1); }

  /// Whether connections to other hosts are encrypted.
  bool encrypts() const {
    return !tls_dir.empty() || !tls_cert.empty() || !tls_ca.empty() ||
           !tls_pin.empty();
  }

  /// Whether connections may go beyond loopback.
  bool leaves_host() const { return insecure_network || encrypts(); }

  bool operator==(const cluster_settings&) const = default;
};

/// How many steps a worker makes on its own, with an optimiser of its own,
/// before it pushes the difference of its weights.
struct local_steps_rule {
  uint32_t most = 0;    ///< 0: it pushes each gradient.
  bool by_rate = false; ///< The quickest worker makes as many, others fewer.

  local_steps_rule() = default;

  local_steps_rule(uint32_t most, bool by_rate = false) // NOLINT
    : most(most), by_rate(by_rate) {
    // nop
  }

  bool operator==(const local_steps_rule&) const = default;
};

/// [training] What is trained, how, and for how long.
struct training_settings {
  std::string network = "lenet"; ///< A name, script:FILE or weights:FILE.
  bool allow_scripts = false;    ///< Whether this node may run such files.
  std::string optimizer = "sgd"; ///< Or adam, adamw, lamb, adagrad.
  double lr = 0.03;
  /// A policy may have another default; see `asynchronous_momentum`.
  double momentum = 0.9;
  /// Whether each step has the default momentum of as many workers as there are
  /// then; not given: where their number varies and no momentum is given.
  std::optional<bool> momentum_by_workers;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9; ///< adam, adamw, lamb
  double beta2 = 0.999;
  double epsilon = 1e-8;
  decay_exclusion weight_decay_exclude = decay_exclusion::none;
  /// Parameters with numbers of their own (`[param-groups]`); see
  /// param_groups.hpp.
  std::string param_groups;
  double ema_decay = 0; ///< Of the average of the weights; 0: there is none.
  std::optional<double> clip_norm; ///< Largest L2 norm of a step's gradient.
  /// What becomes of gradients whose norm is far beyond those of the other
  /// workers: none | refuse(factor=X); see outliers.hpp.
  std::string outliers = "none";
  std::string lr_schedule = "constant"; ///< See lr_schedule.hpp.
  double warmup_epochs =
    0; ///< Epochs in which the rate rises to the schedule's.
  uint64_t batch_size = 64; ///< Samples per worker and step.
  /// Samples of all workers together per step; determines `batch_size`.
  std::optional<uint64_t> global_batch_size;
  std::optional<uint64_t> micro_batch_size; ///< Samples computed at a time.
  std::string loss = "cross-entropy";       ///< Or one of the program's own.
  double label_smoothing = 0;               ///< In [0, 1).
  autocast_kind autocast = autocast_kind::none;
  local_steps_rule local_steps;
  uint32_t fragments = 1; ///< Parts of the weights, exchanged in turn.
  /// Local steps of a round that are made before its weights have come.
  uint32_t overlap_steps = 0;
  std::string inner_optimizer = "adamw";      ///< See inner_optimizer.hpp.
  std::string inner_lr_schedule = "constant"; ///< See lr_schedule.hpp.
  /// When to stop, whichever comes first. A limit that is not given does not
  /// apply; `epochs` has a default that counts only if none is given.
  std::optional<uint64_t> epochs;
  std::optional<uint64_t> max_steps;
  std::optional<double> target_accuracy; ///< In (0, 1].
  std::string target;                    ///< As `f1>=0.9`; see metrics.hpp.
  /// In a replay that may stop earlier: the recorded run's `max_steps`. There
  /// is no key for it.
  std::optional<uint64_t> schedule_steps;
  uint64_t seed = 1;
  std::string device = "cpu"; ///< cpu | cuda | cuda:N | auto
  compute_kind compute = compute_kind::native;
  std::string compute_socket;   ///< Path; for external computation.
  double compute_timeout = 600; ///< s to wait for its process.
  scalar_type dtype = scalar_type::float32;
  buffers_rule buffers = buffers_rule::average;
  uint32_t threads = 0; ///< Intra-op threads of a compute actor; 0 = share.
  uint64_t memory_limit = 0; ///< MiB of tensors that are kept; 0 = most of all.
  std::string train_dir;     ///< Empty: runs/<network>-<n>, new each time.
  /// File of the first weights; empty: they are drawn from the seed.
  std::string init;
  std::string init_skip; ///< Patterns of keys that are drawn all the same.
  std::string freeze;    ///< Patterns of keys that are not trained.
  /// Which parts of the network live where (`[placement]`); it orders the
  /// parameters in memory. See placement.hpp.
  std::string placement;
  std::optional<std::string> resume; ///< "auto" or the path of a checkpoint.
  bool overwrite = false;
  bool tape = false; ///< Write tape-<life>.pb into the run directory.

  /// Whether a worker goes on with weights of its own from round to round.
  bool keeps_own_weights() const { return fragments > 1 || overlap_steps > 0; }

  bool operator==(const training_settings&) const = default;
};

/// [parallel] Who computes which part of the network.
struct parallel_settings {
  parallel_mode mode = parallel_mode::data_parallel;
  std::optional<uint32_t> stages;        ///< K, of a pipeline.
  std::optional<uint32_t> micro_batches; ///< M, of a batch in a pipeline.
  pipeline_order schedule = pipeline_order::one_forward_one_backward;
  /// Copies of the network in a worker, which share each batch.
  uint32_t replicas = 1;

  bool operator==(const parallel_settings&) const = default;
};

/// Micro-batches of a pipeline, unless given.
inline constexpr uint32_t default_micro_batches = 8;

/// More local steps than this would need more leases than a message holds.
inline constexpr uint32_t most_local_steps = 1000;

/// Learning rate with local steps, unless given (Douillard et al. 2023,
/// "DiLoCo: Distributed Low-Communication Training of Language Models",
/// arXiv:2311.08105).
inline constexpr double default_outer_lr = 0.7;

/// The number of epochs when no limit is given.
inline constexpr uint64_t default_epochs = 50;

/// Default momentum of policies that apply gradients late. Late gradients act
/// like a momentum of 1 - 1/M with M workers, and the two add up (Mitliagkas et
/// al., "Asynchrony begets momentum", 2016). So the default is the difference
/// to the 0.9 of the other policies, rounded down to hundredths.
double asynchronous_momentum(uint32_t workers);

/// [data] Which samples are trained on, and how they are read.
struct data_settings {
  std::string dataset = "digits"; ///< A name, or a declaration.
  std::string data_dir;           ///< Folder of the file-based sets.
  std::string augment = "auto";   ///< auto | none | crop+flip+...
  /// Side of the squares to which images of varying size are scaled.
  uint32_t image_size = 224;
  bad_sample_rule on_bad_sample = bad_sample_rule::fail;
  sharding_kind sharding = sharding_kind::leased;
  bool drop_last = false; ///< Leave out what N ranks cannot share evenly.

  bool operator==(const data_settings&) const = default;
};

/// [policy] The policies and their parameters are listed in policies.hpp.
struct policy_settings {
  std::string name = "sync";
  /// The parameters, by name, whose values differ from their defaults.
  std::map<std::string, std::string, std::less<>> parameters;
  /// How stale gradients count; see staleness_rule.hpp.
  std::string staleness_rule = "none";

  bool operator==(const policy_settings&) const = default;
};

/// How often versions are scored.
struct evaluation_frequency {
  uint64_t steps = 50; ///< 0: at the end of each epoch.

  evaluation_frequency() = default;

  evaluation_frequency(uint64_t steps) : steps(steps) { // NOLINT
    // nop
  }

  bool each_epoch() const { return steps == 0; }

  bool operator==(const evaluation_frequency&) const = default;
};

/// [evaluation]
struct evaluation_settings {
  evaluation_frequency eval_freq;
  uint64_t eval_batch_size = 256;
  double eval_timeout = 60;  ///< s to wait for the last score.
  std::string follow = "ps"; ///< "ps" or a folder of checkpoints.
  /// Of that folder: the steps that are scored; not given: the newest.
  std::optional<uint64_t> every;

  bool operator==(const evaluation_settings&) const = default;
};

/// [checkpoint]
struct checkpoint_settings {
  uint64_t checkpoint_freq = 100; ///< Steps between checkpoints.
  uint32_t keep = 3;              ///< Newest checkpoints that are kept.
  best_rule keep_best = best_rule::weights;
  std::string best_by; ///< As `min(loss)`; empty: see metrics.hpp.

  bool operator==(const checkpoint_settings&) const = default;
};

/// [simulation] All but `clock` apply to the virtual clock only.
struct simulation_settings {
  clock_kind clock = clock_kind::real;
  /// Seconds that one gradient takes, as a distribution; under the virtual
  /// clock the default is `default_compute_time`.
  std::string compute_time;
  std::string link_rate;          ///< Bytes/s; empty: without limit.
  std::string link_latency;       ///< s; empty: none.
  std::string gradients = "real"; ///< real | none
  std::string faults; ///< A file of faults, or random(SEED); empty: none.
  /// "30 async; 60 ssp(staleness=3)": at so many seconds the policy changes.
  std::string policy_changes;

  bool operator==(const simulation_settings&) const = default;
};

inline constexpr const char* default_compute_time = "constant(1)";

struct settings {
  role what = role::none;
  cluster_settings cluster;
  training_settings training;
  parallel_settings parallel;
  data_settings data;
  policy_settings policy;
  evaluation_settings evaluation;
  checkpoint_settings checkpoint;
  simulation_settings simulation;

  bool operator==(const settings&) const = default;
};

/// Whether the run has a clock of its own, and no other processes.
inline bool is_virtual(const settings& all) {
  return all.simulation.clock == clock_kind::virtual_time;
}

/// Whether this is the lead of shards that run in other processes: `--role ps
/// --rank 0`.
inline bool has_remote_shards(const settings& all) {
  return all.what == role::ps && all.cluster.shards > 1 &&
         all.cluster.rank == 0u;
}

/// Whether this process is a worker, too.
inline bool is_peer(const settings& all) {
  return all.what == role::ps && all.cluster.topology == topology_kind::peers;
}

/// Whether this is a remote shard.
inline bool is_remote_shard(const settings& all) {
  return all.what == role::ps && all.cluster.rank.value_or(0) > 0;
}

} // namespace troupe::config
