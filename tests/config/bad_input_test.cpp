#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::config;
using namespace troupe::config::test;

namespace {

struct bad {
  const char* typed;
  const char* line;
};

constexpr bad bad_flags[] = {
  {"",
   "nothing to do: give --simulate for the whole cluster in one process, or "
   "--role; --help shows all flags"},
  {"foo", "unexpected argument 'foo'; flags begin with --"},
  {"-lr 3", "unexpected argument '-lr'; did you mean '--lr'?"},
  {"--", "unexpected argument '--'; flags begin with --"},
  {"--batchsize 3", "unknown flag '--batchsize'; did you mean '--batch-size'?"},
  {"--batch_size=3",
   "unknown flag '--batch_size'; did you mean '--batch-size'?"},
  {"--simulat", "unknown flag '--simulat'; did you mean '--simulate'?"},
  {"--frobnicate", "unknown flag '--frobnicate'"},
  {"-j 4", "unknown flag '-j'; here it is --threads N; each process decodes "
           "its next batch while it computes"},
  {"-b 256", "unknown flag '-b'; here it is --batch-size N, of each worker, or "
             "--global-batch-size N, of all"},
  {"--wd=1e-4", "unknown flag '--wd'; here it is --weight-decay X"},
  {"--pretrained", "unknown flag '--pretrained'; here it is --init FILE, "
                   "weights that torch.save wrote"},
  {"/", "unexpected argument '/'; a folder of data is given as --data-dir DIR"},
  {"--simulate=yes", "--simulate takes no value"},
  {"--simulate --role ps",
   "--simulate and --role, or two roles, contradict each other: give one"},
  {"--role", "--role needs a value"},
  {"--role wrker", "--role wrker: must be one of ps, worker, evaluator, "
                   "auto; did you mean 'worker'?"},
  {"--config a --config b", "--config is given twice"},
  {"--set lr=3", "--set lr=3: must be section.key=value"},
  {"--set training.lr", "--set training.lr: must be section.key=value"},
  {"--set training.momentun=3",
   "--set training.momentun=3: unknown key 'momentun' in [training]; did you "
   "mean 'momentum'?"},
  {"--set policy.lr=3",
   "--set policy.lr=3: 'lr' belongs in [training], not in [policy]"},
  {"--set training.lr=x", "--set training.lr=x: must be a number"},
  {"--lr", "--lr needs a value"},
  {"--lr --momentum 0.5", "--lr needs a value"},
  {"--lr=", "--lr \"\": needs a value"},
  {"--lr 0", "--lr 0: must be above 0"},
  {"--lr -0.1", "--lr -0.1: must be above 0"},
  {"--lr nan", "--lr nan: must be finite"},
  {"--lr inf", "--lr inf: must be finite"},
  {"--lr 1e999", "--lr 1e999: is out of the range of a double"},
  {"--lr 0.1x", "--lr 0.1x: must be a number"},
  {"--lr 0,1", "--lr 0,1: must be a number"},
  {"--momentum 1", "--momentum 1: must be at least 0 and below 1"},
  {"--weight-decay -1", "--weight-decay -1: must be at least 0"},
  {"--beta2 1.5", "--beta2 1.5: must be at least 0 and below 1"},
  {"--epsilon 0", "--epsilon 0: must be above 0"},
  {"--batch-size 0", "--batch-size 0: must be at least 1"},
  {"--batch-size -5", "--batch-size -5: must not be negative"},
  {"--batch-size 6.4", "--batch-size 6.4: must be a whole number"},
  {"--batch-size 64;x", "--batch-size 64;x: must be a whole number"},
  {"--batch-size 99999999999", "--batch-size 99999999999: must be at most "
                               "16777216"},
  {"--batch-size 99999999999999999999999",
   "--batch-size 99999999999999999999999: must be at most "
   "18446744073709551615"},
  {"--workers 0", "--workers 0: must be at least 1"},
  {"--workers 4294967296", "--workers 4294967296: must be at most 4294967295"},
  {"--shards 0", "--shards 0: must be at least 1"},
  {"--port 65536", "--port 65536: must be at most 65535"},
  {"--port http", "--port http: must be a whole number"},
  {"--host=", "--host \"\": needs a value"},
  {"--host http://ps", "--host http://ps: must be a host name or an address"},
  {"--listen 4243", "--listen 4243: must be HOST:PORT"},
  {"--advertise a:b", "--advertise a:b: must be a whole number"},
  {"--advertise 0.0.0.0",
   "--advertise 0.0.0.0: is no address that others could dial: give this "
   "node's own"},
  {"--advertise [::]:4242",
   "--advertise [::]:4242: is no address that others could dial: give this "
   "node's own"},
  {"--advertise a:0", "--advertise a:0: must be HOST or HOST:PORT, with a port "
                      "above 0"},
  {"--listen ::1:4243", "--listen ::1:4243: must be HOST:PORT; an IPv6 host "
                        "needs brackets: [::1]:4242"},
  {"--insecure-network maybe",
   "--insecure-network maybe: must be true or false"},
  {"--join-timeout 0", "--join-timeout 0: must be above 0 and at most 1e9"},
  {"--connect-timeout 1e10",
   "--connect-timeout 1e10: must be above 0 and at most 1e9"},
  {"--transport rdma",
   "--transport rdma: must be one of auto, inproc, shm, stream, nccl, chunked"},
  {"--network resnet",
   "--network resnet: is no network; --list-networks shows all; did "
   "you mean 'lenet'?"},
  {"--optimizer sdg", "--optimizer sdg: must be one of sgd, adam, adamw, "
                      "lamb, adagrad; did you mean 'sgd'?"},
  {"--lr-schedule cosin", "--lr-schedule cosin: 'cosin' is no schedule; known: "
                          "constant, step, multi-step, cosine; did you mean "
                          "'cosine'?"},
  {"--lr-schedule step(every=0)",
   "--lr-schedule step(every=0): every of step must be above 0"},
  {"--lr-schedule step(at=30)",
   "--lr-schedule step(at=30): step has no parameter 'at', it has every, "
   "factor"},
  {"--lr-schedule step(30)", "--lr-schedule step(30): '30' must be NAME=VALUE"},
  {"--lr-schedule step(every=3,every=4)",
   "--lr-schedule step(every=3,every=4): every of step is given twice"},
  {"--lr-schedule step(every=3",
   "--lr-schedule step(every=3: must be step(...)"},
  {"--lr-schedule multi-step",
   "--lr-schedule multi-step: multi-step needs at, the epochs of its steps, "
   "such as 30+60+80"},
  {"--lr-schedule multi-step(at=60+30)",
   "--lr-schedule multi-step(at=60+30): at of multi-step must be epochs that "
   "rise, such as 30+60+80"},
  {"--lr-schedule cosine(min=-1)",
   "--lr-schedule cosine(min=-1): min of cosine must not be negative"},
  {"--warmup-epochs -1", "--warmup-epochs -1: must be at least 0"},
  {"--weight-decay-exclude bn",
   "--weight-decay-exclude bn: must be one of none, bias, norm, bias+norm"},
  {"--loss mse", "--loss mse: must be one of cross-entropy, margin"},
  {"--param-groups fc1=rate=1",
   "--param-groups fc1=rate=1: 'rate=1' must be lr=X, weight-decay=X or "
   "momentum=X"},
  {"--ema-decay 1", "--ema-decay 1: must be at least 0 and below 1"},
  {"--clip-norm 0", "--clip-norm 0: must be above 0"},
  {"--staleness-rule linear",
   "--staleness-rule linear: 'linear' is no rule; known: none, polynomial, "
   "delayed-nesterov"},
  {"--clock virtual --policy-changes async",
   "--policy-changes async: each change is a time in seconds and a policy, as "
   "in '30 ssp(staleness=3)'"},
  {"--local-steps 1001", "--local-steps 1001: must be at most 1000"},
  {"--local-steps -1", "--local-steps -1: must be a whole number or auto"},
  {"--local-steps fast(max=3)",
   "--local-steps fast(max=3): must be a whole number or auto"},
  {"--fragments 0", "--fragments 0: must be at least 1"},
  {"--overlap-steps 501", "--overlap-steps 501: must be at most 500"},
  {"--local-steps auto(max=0)",
   "--local-steps auto(max=0): max of auto must be at least 1"},
  {"--local-steps auto(most=8)",
   "--local-steps auto(most=8): auto has no parameter 'most', it has max"},
  {"--local-steps 8 --inner-optimizer adamw(momentum=0.9)",
   "--inner-optimizer adamw(momentum=0.9): adamw has no parameter 'momentum', "
   "it has lr, weight-decay, clip-norm, warmup-epochs, beta1, beta2, epsilon"},
  {"--outliers drop",
   "--outliers drop: 'drop' is no rule; known: none, refuse"},
  {"--outliers none()", "--outliers none(): none has no parameters"},
  {"--outliers refuse(factor=1)",
   "--outliers refuse(factor=1): factor of refuse must be above 1"},
  {"--outliers refuse(factor=x)",
   "--outliers refuse(factor=x): factor of refuse must be a number"},
  {"--outliers refuse(times=3)",
   "--outliers refuse(times=3): refuse has no parameter 'times', it has "
   "factor"},
  {"--outliers refuse(10)", "--outliers refuse(10): '10' must be NAME=VALUE"},
  {"--label-smoothing 1",
   "--label-smoothing 1: must be at least 0 and below 1"},
  {"--micro-batch-size 0", "--micro-batch-size 0: must be at least 1"},
  {"--replicas 0", "--replicas 0: must be at least 1"},
  {"--autocast fp8", "--autocast fp8: must be one of none, bf16, fp16, auto"},
  {"--dataset cifar11",
   "--dataset cifar11: is no data set; --list-datasets shows all; did you "
   "mean 'cifar10'?"},
  {"--augment flop",
   "--augment flop: has the step 'flop'; there are auto, none, or crop, "
   "resized-crop, flip and jitter with + between them"},
  {"--image-size 0", "--image-size 0: must be at least 1"},
  {"--on-bad-sample ignore",
   "--on-bad-sample ignore: must be one of fail, skip"},
  {"--policy bulk",
   "--policy bulk: must be one of sync, backup, ssp, async, buffered, "
   "quorum"},
  {"--compression none()", "--compression none(): none has no parameters"},
  {"--policy asinc",
   "--policy asinc: must be one of sync, backup, ssp, async, buffered, "
   "quorum; "
   "did you mean 'async'?"},
  {"--late never", "--late never: must be one of drop, cancel"},
  {"--dtype half", "--dtype half: must be one of float32, float64"},
  {"--device gpu",
   "--device gpu: must be cpu, cuda, cuda:N with N up to 15, or auto"},
  {"--device cuda:",
   "--device cuda:: must be cpu, cuda, cuda:N with N up to 15, or auto"},
  {"--device cuda:x",
   "--device cuda:x: must be cpu, cuda, cuda:N with N up to 15, or auto"},
  {"--epochs 0", "--epochs 0: must be at least 1"},
  {"--max-steps 0", "--max-steps 0: must be at least 1"},
  {"--target-accuracy 0", "--target-accuracy 0: must be above 0 and at most 1"},
  {"--target-accuracy 97",
   "--target-accuracy 97: must be above 0 and at most 1"},
  {"--target accuracy", "--target accuracy: is a metric and its value, such as "
                        "accuracy>=0.97 or loss<=0.1"},
  {"--target accuracy>0.9",
   "--target accuracy>0.9: is a metric and its value, such as accuracy>=0.97 "
   "or loss<=0.1"},
  {"--target 9lives>=1",
   "--target 9lives>=1: is no name of a metric: '9lives'; a letter comes "
   "first, then letters, digits and _.-/"},
  {"--target loss<=low", "--target loss<=low: must be a number"},
  {"--simulate --best-by max(ema/loss)",
   "--best-by max(ema/loss): is of the average of the weights, which "
   "--ema-decay keeps: give it, too"},
  {"--simulate --ema-decay 0.9 --target ema/f1>=0.9",
   "--target ema/f1>=0.9: there is no metric ema/f1 but accuracy, loss and "
   "accuracy_top5 of networks that Troupe computes"},
  {"--simulate --target f1>=0.9",
   "--target f1>=0.9: there is no metric f1 but accuracy, loss and "
   "accuracy_top5 of networks that Troupe computes"},
  {"--simulate --target accuracy>=0.9 --target-accuracy 0.9",
   "--target accuracy>=0.9: says the same as --target-accuracy 0.9: give one "
   "of the two"},
  {"--best-by loss",
   "--best-by loss: is max(METRIC) or min(METRIC), such as min(loss)"},
  {"--simulate --best-by max(f1)",
   "--best-by max(f1): there is no metric f1 but accuracy, loss and "
   "accuracy_top5 of networks that Troupe computes"},
  {"--eval-freq 0", "--eval-freq 0: must be at least 1, or epoch"},
  {"--eval-freq epochs", "--eval-freq epochs: must be a whole number or epoch"},
  {"--role evaluator --every 5",
   "--every 5: is for checkpoints of a folder: give it with --follow DIR, or "
   "eval-freq at the parameter server"},
  {"--role evaluator --follow r --every 0", "--every 0: must be at least 1"},
  {"--role evaluator --follow r --keep 2",
   "--keep 2: means nothing with --follow r: the newest checkpoint there is "
   "scored, or with --every N each of a step that N divides"},
  {"--keep 0", "--keep 0: must be at least 1"},
  {"--clock warp", "--clock warp: must be one of real, virtual"},
  {"--compute-time 1", "--compute-time 1: '1' is no distribution; known: "
                       "constant, gamma, exp, pareto, transient, slow"},
  {"--compute-time gamma(mean=1)", "--compute-time gamma(mean=1): gamma needs "
                                   "cv, standard deviation / mean"},
  {"--link-rate 0", "--link-rate 0: must be above 0"},
  {"--link-latency -1", "--link-latency -1: must be at least 0"},
};

constexpr bad bad_wholes[] = {
  {"--policy backup --workers 1",
   "[policy] backup-workers = 1 (default): must be less than the number of "
   "workers, 1"},
  {"--policy backup --backup-workers 9",
   "--backup-workers 9: must be less than the number of workers, 4"},
  {"--nesterov --momentum 0", "--nesterov true: needs a momentum above 0"},
  {"--drop-last", "--drop-last true: is for shares of one size: use it with "
                  "--sharding static"},
  {"--sharding local",
   "--sharding local: needs files that differ from node to node; those of the "
   "data set digits are built in: use static"},
  {"--sharding local --dataset mnist --data-dir x --clock virtual --gradients "
   "none --max-steps 9",
   "--sharding local: needs samples, and --gradients none has none: use "
   "static"},
  {"--sharding statics",
   "--sharding statics: must be one of leased, static, local; did you mean "
   "'static'?"},
  {"--global-batch-size 66",
   "--global-batch-size 66: must be a multiple of the number of workers, 4"},
  {"--global-batch-size 64 --batch-size 32",
   "--batch-size 32: contradicts global-batch-size, which makes 16 for each of "
   "4 workers: give one of the two"},
  {"--lr 0.1 --lr-schedule cosine(min=0.2)",
   "--lr-schedule cosine(min=0.2): ends above the learning rate, 0.1"},
  {"--epochs 3 --warmup-epochs 3",
   "--warmup-epochs 3: must be less than the epochs of the run, 3"},
  {"--weight-decay-exclude norm",
   "--weight-decay-exclude norm: needs a weight-decay above 0"},
  {"--loss margin --label-smoothing 0.1",
   "--label-smoothing 0.1: is for --loss cross-entropy"},
  {"--optimizer adam --param-groups fc1=momentum=0",
   "--param-groups fc1=momentum=0: 'fc1' has a momentum, which adam does not "
   "know"},
  {"--momentum 0 --param-groups fc1=momentum=0.5",
   "--param-groups fc1=momentum=0.5: 'fc1' has a momentum, but "
   "--momentum is 0: set --momentum above 0, and give momentum=0 to each group "
   "that should have none"},
  {"--staleness-rule polynomial",
   "--staleness-rule polynomial: changes nothing with sync, whose gradients "
   "are all of the newest version: leave it out, or use a policy without a "
   "barrier, such as async"},
  {"--policy async --staleness-rule delayed-nesterov --optimizer adam",
   "--staleness-rule delayed-nesterov: is about Nesterov's momentum: use "
   "--optimizer sgd with --nesterov and a momentum above 0"},
  {"--policy quorum --quorum 5 --workers 4",
   "--quorum 5: must be at most the number of workers, 4"},
  {"--inner-optimizer adamw(lr=0.01)",
   "--inner-optimizer adamw(lr=0.01): is for steps that workers make on their "
   "own: add --local-steps H, or leave it out"},
  {"--fragments 4",
   "--fragments 4: is for steps that workers make on their own: add "
   "--local-steps H, or leave it out"},
  {"--fragments 4 --local-steps 8 --outliers refuse(factor=4)",
   "--fragments 4: makes gradients of different sizes, whose norms cannot be "
   "compared: leave outliers out"},
  {"--fragments 4 --local-steps 8 --policy async --staleness-rule "
   "delayed-nesterov --momentum 0.9 --nesterov true",
   "--fragments 4: leaves the momentum of some fragments out of the steps in "
   "which delayed-nesterov uses it: leave --staleness-rule out"},
  {"--overlap-steps 2",
   "--overlap-steps 2: is for steps that workers make on their own: add "
   "--local-steps H, or leave it out"},
  {"--local-steps 8 --overlap-steps 8",
   "--overlap-steps 8: is as many as a round has, and its weights would come "
   "too late: give at most 7, or more --local-steps"},
  {"--local-steps 600 --overlap-steps 500",
   "--overlap-steps 500: and --local-steps are more together than the 1000 "
   "batches that a worker may have ahead: give fewer"},
  {"--local-steps 8 --weight-decay 0.1",
   "--weight-decay 0.1: is for each gradient, and the server has differences "
   "of weights: give it to the workers, as in --inner-optimizer "
   "adamw(weight-decay=0.1)"},
  {"--local-steps auto --sharding static",
   "--local-steps auto(max=32): lets quick workers make more steps, and with "
   "--sharding static each has samples of its own: give a number, or leave "
   "--sharding out"},
  {"--local-steps 8 --mode pipeline --stages 2",
   "--local-steps 8: are made by workers that have the whole network: leave "
   "--mode pipeline out"},
  {"--replicas 65",
   "--replicas 65: share a batch, and that has 64 samples: use as many "
   "replicas at most"},
  {"--replicas 2 --mode remote-forward",
   "--replicas 2: are copies of the whole network; with --mode remote-forward "
   "leave it out"},
  {"--replicas 2 --mode pipeline --stages 2",
   "--replicas 2: are copies of the whole network; with --mode pipeline leave "
   "it out"},
  {"--topology peers --join",
   "--join true: is for a node that joins peers: give --role auto --topology "
   "peers"},
  {"--topology peers --reshard-on-join",
   "--reshard-on-join true: is for peers in processes of their own: give "
   "--role "
   "auto --topology peers"},
  {"--autocast bf16 --dtype float64", "--autocast bf16: needs --dtype float32"},
  {"--autocast fp16 --dtype float64", "--autocast fp16: needs --dtype float32"},
  {"--autocast fp16",
   "--autocast fp16: needs a GPU: give --device cuda, or use bf16"},
  {"--resume --overwrite",
   "--overwrite true: contradicts resume: give one of the two"},
  {"--image-size 64", "--image-size 64: is for images of any size (folder, "
                      "tar); those of digits have theirs"},
  {"--dataset mnist", "--dataset mnist: is read from files: give their folder "
                      "with --data-dir"},
  {"--clock virtual --gradients none",
   "--gradients none: never learns and has no epochs: say when to stop with "
   "--max-steps"},
  {"--clock virtual --gradients none --max-steps 9 --epochs 2",
   "--epochs 2: means nothing with --gradients none"},
  {"--clock virtual --gradients none --max-steps 9 --target loss<=1",
   "--target loss<=1: means nothing with --gradients none"},
  {"--clock virtual --gradients none --max-steps 9 --target-accuracy 0.9",
   "--target-accuracy 0.9: means nothing with --gradients none"},
  {"--clock virtual --gradients none --max-steps 9 --outliers refuse",
   "--outliers refuse: looks at the norms of gradients, and --gradients none "
   "has no gradients: leave one of the two out"},
  {"--gradients none", "--gradients none: needs the virtual clock"},
  {"--compute-time constant(1)",
   "--compute-time constant(1): needs the virtual clock"},
  {"--link-rate 1e9", "--link-rate 1e9: needs the virtual clock"},
  {"--link-latency 0.1", "--link-latency 0.1: needs the virtual clock"},
};

} // namespace

TEST_CASE("wrong flags are one clear line", "[bad]") {
  for (const auto& [typed, line] : bad_flags) {
    INFO(typed);
    CHECK(complaint([&, t = typed] { parse(split(t)); }) == line);
  }
}

TEST_CASE("settings that do not fit together are refused", "[bad]") {
  for (const auto& [typed, line] : bad_wholes) {
    INFO(typed);
    auto said = complaint(
      [&, t = typed] { parse(split("--simulate " + std::string{t})); });
    CHECK(said.starts_with(line));
  }
}

TEST_CASE("backup-workers is free where the policy does not use it", "[bad]") {
  CHECK_NOTHROW(parse(split("--simulate --workers 1")));
  CHECK_NOTHROW(parse(split("--simulate --backup-workers 9")));
}

TEST_CASE("what only some roles can do is refused to the others", "[bad]") {
  auto said = [](const std::string& line) {
    return complaint([&] { parse(split(line)); });
  };
  CHECK(said("--role ps --clip-norm 1 --shards 2 --rank 0") == "");
  CHECK(said("--role worker --port 0") ==
        "--port 0: only the parameter server can take any free port");
  CHECK(said("--role ps --port 0") == "");
  CHECK(said("--role ps --rank 1") ==
        "--rank 1: a shard in a process of its own has an address of its own: "
        "give it with --listen HOST:PORT");
  CHECK(said("--role ps --rank 2 --shards 2 --listen 127.0.0.1:1") ==
        "--rank 2: must be below the number of shards, 2");
  CHECK(said("--role ps --rank 2 --listen 127.0.0.1:1") == "");
  CHECK(said("--role ps --rank 1 --listen 10.0.0.1:1")
          .starts_with("--listen 10.0.0.1:1: is no loopback address"));
  CHECK(said("--role ps --rank 1 --listen 127.0.0.1:1 --port 0") ==
        "--port 0: only the parameter server can take any free port");
  CHECK(said("--role ps --listen 127.0.0.1:1") == "");
  CHECK(said("--role ps --listen 127.0.0.1:0 --advertise ::1") == "");
  CHECK(said("--role ps --advertise node1 --insecure-network") == "");
  CHECK(said("--role ps --advertise node1 --interface lo") ==
        "--interface lo: says what others are told, as --advertise does: give "
        "one of them");
  for (std::string beyond : {"--listen 0.0.0.0:1", "--advertise node1"})
    CHECK(said("--role ps " + beyond)
            .starts_with(beyond + ": is no loopback address"));
  CHECK(said("--role worker --listen 0.0.0.0:1 --advertise node1") == "");
  CHECK(said("--role ps --listen 0.0.0.0:1 --tls-dir here") == "");
  const std::string lead = "--role auto --topology peers --rank 0 --workers 2 ";
  CHECK(said(lead + "--listen 127.0.0.1:0")
          .starts_with("--listen 127.0.0.1:0: nobody could know the port"));
  CHECK(said(lead + "--listen 127.0.0.1:0 --init-method file:///meet") == "");
  const std::string meets = "--role worker --rdzv-backend file ";
  CHECK(said(meets + "--rdzv-id a") ==
        "--rdzv-backend file: needs --rdzv-endpoint DIR, a folder that all "
        "nodes see");
  CHECK(said(meets + "--rdzv-endpoint meet") ==
        "--rdzv-backend file: needs --rdzv-id NAME, the same at all nodes of "
        "the run");
  CHECK(said(meets + "--rdzv-endpoint meet --rdzv-id a/b")
          .starts_with("--rdzv-id a/b: names a file of --rdzv-endpoint"));
  CHECK(said(meets + "--rdzv-endpoint meet --rdzv-id a") == "");
  CHECK(said("--role worker --rdzv-backend etcd")
          .starts_with("--rdzv-backend etcd: must be one of static, file"));
  CHECK(said("--role worker --rdzv-endpoint meet")
          .starts_with("--rdzv-endpoint meet: "));
  CHECK(said("--role worker --rdzv-endpoint 127.0.0.1:29500") == "");
  CHECK(said(lead + "--listen 127.0.0.1:0 --rdzv-backend file --rdzv-endpoint "
                    "meet --rdzv-id a") == "");
  CHECK(said("--role worker --rank 1") == "");
  CHECK(said("--role worker --transport inproc")
          .starts_with("--transport inproc: connects actors of one process"));
  CHECK(said("--role worker --dataset mnist")
          .starts_with("--dataset mnist: is read from files"));
  CHECK(said("--role worker --dataset mnist --data-dir x") == "");
  CHECK(said("--role ps --dataset mnist --sharding local") == "");
  CHECK(said("--role ps --sharding local")
          .starts_with("--sharding local: needs files that differ"));
  CHECK(said("--role worker --sharding local") == "");
}

TEST_CASE("a wrong value names the place where it stands", "[bad]") {
  scratch folder;
  auto file = folder.write("c.ini", "[training]\n\nbatch-size = 0\n");
  CHECK(complaint([&] {
          parse({"--simulate", "--config", file});
        }) == file + ":3: [training] batch-size = 0: must be at least 1");
  auto clock = folder.write("d.ini", "[simulation]\nclock = virtual\n");
  CHECK(complaint([&] {
          parse({"--role", "ps", "--config", clock});
        })
          .starts_with(clock + ":2: [simulation] clock = virtual: is for the "
                               "whole cluster in one process"));
  CHECK(complaint([] {
          parse({"--simulate"}, {{"TROUPE_TRAINING_BATCH_SIZE", "0"}});
        }) == "TROUPE_TRAINING_BATCH_SIZE=0: must be at least 1");
}

TEST_CASE("a misspelt variable is refused with the nearest one", "[bad]") {
  CHECK(complaint([] {
          parse({"--simulate"}, {{"TROUPE_TRAINING_BATCHSIZE", "3"}});
        }) == "environment: unknown variable TROUPE_TRAINING_BATCHSIZE; did "
              "you mean 'TROUPE_TRAINING_BATCH_SIZE'?");
}

TEST_CASE("control characters are refused, and shown escaped", "[bad]") {
  CHECK(complaint([] {
          parse({"--simulate", "--train-dir", "a\nb"});
        }) == "--train-dir a\\x0ab: must not hold control characters");
}

TEST_CASE("a long value is cut short in the complaint", "[bad]") {
  auto line = complaint([] {
    parse({"--simulate", "--lr", std::string(100000, '9') + "x"});
  });
  CHECK(line.size() < 150);
}

TEST_CASE("bad usage has exit status 2", "[bad]") {
  try {
    parse({"--lr", "0"});
    FAIL("was accepted");
  } catch (const failure& error) {
    CHECK(error.status() == exit_status::usage);
  }
}
