#include "config/schema/table.hpp"

#include "config/schema/known_names.hpp"
#include "config/schema/optimizers.hpp"
#include "config/schema/policies.hpp"
#include "config/schema/rules.hpp"
#include "config/text/text.hpp"

namespace troupe::config {

namespace {

using namespace rules;

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
  at.add("optimizer", &s::optimizer, scope::cluster,
         words_of_choice(known_optimizers()),
         "how the parameter server applies gradients",
         one_of{known_optimizers()});
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
  at.add("local-steps", &s::local_steps, scope::cluster, "H|auto(max=N)",
         "steps that a worker makes with an optimiser of its own before it "
         "pushes the difference of its weights, to which the optimizer is "
         "applied like to a gradient; max-steps, eval-freq and checkpoint-freq "
         "count these; 0: each gradient is pushed; auto: the quickest worker "
         "makes N, and others as many as they can meanwhile");
  at.add(
    "fragments", &s::fragments, scope::cluster, "P",
    "local-steps: cut the parameters into so many parts, of which a worker "
    "exchanges one after each round, in turn",
    from{1, 1000});
  at.add("overlap-steps", &s::overlap_steps, scope::cluster, "T",
         "local-steps: a worker makes the first T of a round while its push "
         "and the weights are on their way, and merges the weights then",
         from{0, 500});
  at.add("inner-optimizer", &s::inner_optimizer, scope::cluster,
         "NAME(lr=X,...)",
         "local-steps: a worker's own optimizer, such as "
         "sgd(lr=0.1,momentum=0.9) or "
         "adamw(lr=0.001,weight-decay=0.1,clip-norm=1); programs that compute "
         "have their own",
         rules::inner_optimizer);
  at.add("inner-lr-schedule", &s::inner_lr_schedule, scope::cluster,
         "NAME(...)",
         "local-steps: how the learning rate of that optimizer changes",
         rules::lr_schedule);
  at.add("batch-size", &s::batch_size, scope::cluster, "N",
         "samples per worker and step", from{1, 1 << 24});
  at.add("global-batch-size", &s::global_batch_size, scope::cluster, "N",
         "samples of all workers together, instead of batch-size",
         from{1, 1e12});
  at.add("micro-batch-size", &s::micro_batch_size, scope::cluster, "N",
         "samples of a batch that a worker computes at once; their gradients "
         "are added up; not given: all",
         from{1, 1 << 24});
  at.add("loss", &s::loss, scope::cluster, words_of_choice(known_losses()),
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
  at.add("name", &s::name, scope::cluster, words_of_choice(policy_names()),
         "who waits for whom, also with parameters: NAME(KEY=VALUE,...)" +
           other_names(),
         rules::policy)
    .flag = "policy";
  for (const auto& each : policy_parameters())
    add_parameter(table, each);
  at.add("staleness-rule", &s::staleness_rule, scope::cluster,
         "none|polynomial(power=A)|delayed-nesterov(every=N)",
         "how a gradient counts that was computed on older weights: "
         "polynomial: 1/(1+s)^A of what it would with a staleness s of 0, and "
         "steps are smaller by as much; delayed-nesterov: 1/N, and each N-th "
         "step uses the momentum (0: N is the number of workers)",
         rules::staleness_rule);
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
  at.add("gradients", &s::gradients, scope::node, words_of_choice(gradients),
         "virtual clock: none schedules only, nothing is trained",
         one_of{gradients});
  at.add("faults", &s::faults, scope::node, "FILE|random(SEED)",
         "virtual clock: what breaks and when; every promise of the cluster is "
         "checked meanwhile",
         rules::faults);
  at.add("policy-changes", &s::policy_changes, scope::node, "S POLICY;...",
         "virtual clock: after S seconds the run goes on with another policy, "
         "as ctl policy does it",
         rules::policy_changes);
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
