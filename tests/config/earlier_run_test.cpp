#include "config/report/report.hpp"
#include "config/runs/earlier_run.hpp"
#include "tests/config/samples.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>

using namespace troupe;
using namespace troupe::config;
using namespace troupe::config::test;

namespace {

const std::string name = "runs/a/checkpoints/step-00000100";

/// A run that was started with `line`.
run_finder run_of(const std::string& line, bool has_weights = true) {
  auto ini = to_ini(parse(split("--simulate " + line)).config.values);
  return [=](const settings&, bool) {
    return earlier_run{name, ini, has_weights};
  };
}

resolved resume(const std::string& line, const run_finder& find,
                const environment& variables = {}) {
  return parse_command_line(split("--simulate --resume auto " + line),
                            variables, find)
    .config;
}

std::string resume_complaint(const std::string& line, const run_finder& find,
                             const environment& variables = {}) {
  return complaint([&] { resume(line, find, variables); });
}

} // namespace

TEST_CASE("what is not given is as the run has it", "[earlier-run]") {
  auto all = resume("", run_of("--seed 3 --policy ssp --staleness 2 --lr 0.5 "
                               "--dataset synthetic(samples=99) --epochs 7 "
                               "--checkpoint-freq 33"));
  CHECK(all.values.training.seed == 3);
  CHECK(all.values.policy.name == "ssp");
  CHECK(all.values.policy.parameters.at("staleness") == "2");
  CHECK(all.values.training.lr == 0.5);
  CHECK(all.values.training.epochs == 7);
  CHECK(all.values.checkpoint.checkpoint_freq == 33);
  CHECK(all.origin_of("training.seed").to_string() == "run " + name);
  CHECK_FALSE(all.is_explicit("training.seed"));
  CHECK_FALSE(all.is_default("training.seed"));
  CHECK(all.changes.empty());
}

TEST_CASE("a number of workers that varies does so in a resumed run, too",
          "[earlier-run]") {
  auto run = run_of("--policy async --workers 2:4");
  auto found = resume("", run).values;
  CHECK(found.cluster.fewest_workers() == 2);
  CHECK(found.cluster.max_workers == 4);
  CHECK(found.training.momentum_by_workers == true);
  CHECK(resume("--workers 3", run).values.cluster.workers == 3);
  CHECK(resume("--workers 3:8", run).values.cluster.max_workers == 8);
  CHECK(resume_complaint("--workers 8", run) ==
        "--workers 8: is above max-workers, 4");
}

TEST_CASE("what depends on other settings is as it was in the run",
          "[earlier-run]") {
  auto run = run_of("--policy async --workers 2");
  auto momentum = resume("", run).values.training.momentum;
  CHECK(momentum == asynchronous_momentum(2));
  CHECK(resume("--workers 4", run).values.training.momentum == momentum);
  auto shared = run_of("--global-batch-size 128 --workers 2");
  CHECK(resume("", shared).values.training.batch_size == 64);
  CHECK(resume("--workers 4", shared).values.training.batch_size == 32);
}

TEST_CASE("what is given and differs is refused, whatever its source",
          "[earlier-run]") {
  auto run = run_of("--seed 3");
  const auto rest = ": the run at " + name +
                    " has 3; leave it out to go on as it was, or begin "
                    "another run in another train-dir";
  CHECK(resume_complaint("--seed 4", run) == "--seed 4" + rest);
  CHECK(resume_complaint("--set training.seed=4", run) ==
        "--set training.seed=4" + rest);
  CHECK(resume_complaint("", run, {{"TROUPE_TRAINING_SEED", "4"}}) ==
        "TROUPE_TRAINING_SEED=4" + rest);
  scratch folder;
  auto file = folder.write("c.ini", "[training]\nseed = 4\n");
  CHECK(resume_complaint("--config " + file, run) ==
        file + ":2: [training] seed = 4" + rest);
  CHECK(resume_complaint("--seed 3", run).empty());
  CHECK(resume_complaint("--lr 0.5", run_of("")) ==
        "--lr 0.5: the run at " + name +
          " has 0.03; leave it out to go on as it was, or change it with "
          "--change training.lr=0.5");
}

TEST_CASE("each setting of the cluster is refused or free", "[earlier-run]") {
  const std::set<std::string> free{
    "cluster.run-id",  "cluster.workers",     "cluster.shards",
    "training.epochs", "training.max-steps",  "training.target-accuracy",
    "training.target", "evaluation.eval-freq"};
  auto run = run_of("");
  for (const auto& key : all_keys()) {
    if (key.where == scope::start)
      continue;
    INFO(key.id());
    auto find = [&](const settings& all, bool starts) {
      return run(all, starts);
    };
    auto said = complaint([&] {
      parse_command_line(
        std::vector<std::string>{"--simulate", "--resume", "auto",
                                 "--print-config", "--set",
                                 key.id() + "=" + samples().at(key.id())},
        {}, find);
    });
    auto may_differ = key.where == scope::node || free.contains(key.id());
    CHECK(said.empty() == may_differ);
    if (!may_differ)
      CHECK(said.find(": the run at " + name + " has ") != said.npos);
  }
}

TEST_CASE("a run's description of its network is where the run is",
          "[earlier-run]") {
  scratch root;
  root.write("moved/described/net.safetensors", "x");
  const std::string before = "weights:/gone/described/net.safetensors";
  auto network = [&](const std::string& folder) {
    earlier_run run{name, "[training]\nnetwork = " + before + "\n", true,
                    root.path() / folder};
    return from_run(run, {}, role::ps).front().text;
  };
  auto kept = root.path() / "moved/described/net.safetensors";
  CHECK(network("moved") == "weights:" + kept.string());
  CHECK(network("other") == before);
}

TEST_CASE("a start's own limits take the place of the run's", "[earlier-run]") {
  auto run = run_of("--max-steps 100");
  auto all = resume("--epochs 3", run).values.training;
  CHECK(all.epochs == 3);
  CHECK(all.max_steps == std::nullopt);
  all = resume("", run).values.training;
  CHECK(all.epochs == std::nullopt);
  CHECK(all.max_steps == 100);
}

TEST_CASE("a start's place and what its owner allows are not the run's",
          "[earlier-run]") {
  auto all = resume("", run_of("--train-dir elsewhere --host 10.0.0.1 "
                               "--insecure-network --port 5 --allow-scripts"))
               .values;
  CHECK(all.training.train_dir.empty());
  CHECK(all.cluster.host == "127.0.0.1");
  CHECK(all.cluster.port == 4242);
  CHECK_FALSE(all.cluster.insecure_network);
  CHECK_FALSE(all.training.allow_scripts);
}

TEST_CASE("a deliberate change is taken and told", "[earlier-run]") {
  auto run = run_of("--epochs 9");
  auto all = resume("--change training.lr=0.01,training.lr-schedule="
                    "step(every=3,factor=0.5)",
                    run);
  CHECK(all.values.training.lr == 0.01);
  CHECK(all.values.training.lr_schedule == "step(every=3,factor=0.5)");
  CHECK(all.changes ==
        std::vector<change>{{0, 0, "training.lr", "0.03", "0.01"},
                            {0, 0, "training.lr-schedule", "constant",
                             "step(every=3,factor=0.5)"}});
  CHECK(resume("--change training.lr=0.03", run).changes.empty());
  CHECK(resume("--change policy.name=ssp --lr 0.03", run).values.policy.name ==
        "ssp");
}

TEST_CASE("what the account of samples rests on cannot be changed",
          "[earlier-run]") {
  auto run = run_of("");
  CHECK(resume_complaint("--change training.seed=4", run) ==
        "--change training.seed=4: the run at " + name +
          " has 1, and cannot go on with another; begin another run in "
          "another train-dir");
  for (const auto* what :
       {"training.network=resnet20", "training.dtype=float64",
        "data.dataset=synthetic(samples=1000)", "data.sharding=static",
        "training.optimizer=adam"})
    CHECK(resume_complaint(std::string{"--change "} + what, run)
            .starts_with(std::string{"--change "} + what + ": the run at "));
}

TEST_CASE("workers that have a part of the data each cannot become more",
          "[earlier-run]") {
  auto shared = run_of("--workers 2 --sharding static");
  CHECK(resume_complaint("--change cluster.workers=3", shared) ==
        "--change cluster.workers=3: the run at " + name +
          " has 2, and cannot go on with another; begin another run in "
          "another train-dir");
  CHECK(resume_complaint("--workers 3", shared).find("--change") ==
        std::string::npos);
  auto leased = run_of("--workers 2");
  CHECK(resume("--change cluster.workers=3", leased).values.cluster.workers ==
        3);
}

TEST_CASE("a change needs a run that goes on", "[earlier-run]") {
  CHECK(complaint([] {
          parse(split("--simulate --change training.lr=0.1"));
        }) == "--change training.lr=0.1: --change is for a run that goes on: "
              "give it to the parameter server, or --simulate, with --resume");
  CHECK(complaint([] {
          parse(split("--simulate --resume --change lr=0.1"));
        }) == "--change lr=0.1: must be section.key=value");
  // Workers may be given what all nodes are given.
  CHECK_NOTHROW(parse(split("--role worker --change training.lr=0.1")));
  // Nothing to go on from: the run begins with it.
  auto none = [](const settings&, bool) {
    return std::optional<earlier_run>{};
  };
  CHECK(resume("--change training.lr=0.1", none).values.training.lr == 0.1);
}

TEST_CASE("a run that has no weights yet is begun anew as it was meant",
          "[earlier-run]") {
  auto run = run_of("--seed 3 --lr 0.5", false);
  auto all = resume("--lr 0.1", run).values.training;
  CHECK(all.seed == 3);
  CHECK(all.lr == 0.1);
}

TEST_CASE("a config.ini that is no configuration is refused by its path",
          "[earlier-run]") {
  auto broken = [](const std::string& ini) {
    return [=](const settings&, bool) {
      return earlier_run{"r/config.ini", ini, true};
    };
  };
  CHECK(resume_complaint("", broken("[training]\ncolour = red\n"))
          .starts_with("r/config.ini:2: unknown key 'colour'"));
  CHECK(resume_complaint("", broken("[training]\nlr = -1\n")) ==
        "[training] lr = -1 (of the run at r/config.ini): must be above 0");
}
