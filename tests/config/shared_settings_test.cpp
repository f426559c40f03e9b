#include "config/runs/shared_settings.hpp"
#include "tests/config/samples.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::config;
using namespace troupe::config::test;

namespace {

settings values(const std::string& line) {
  return resolved_from(split(line)).values;
}

/// What the parameter server says to a worker started with `line`.
std::string answer(const std::string& server, const std::string& line) {
  return conflicts(values(server),
                   explicit_shared_settings(resolved_from(split(line))));
}

/// The line of the `run_error` that taking these throws.
std::string settings_complaint(const pairs& theirs) {
  settings own;
  try {
    apply_shared_settings(own, theirs);
    return "";
  } catch (const run_error& error) {
    CHECK(own == settings{});
    return error.what();
  }
}

} // namespace

TEST_CASE("what a hello says is what was given of the cluster's", "[cluster]") {
  auto own = resolved_from(split("--lr 0.50 --device cuda --port 1 --policy "
                                 "ssp"));
  CHECK(explicit_shared_settings(own) ==
        pairs{{"training.lr", "0.5"}, {"policy.name", "ssp"}});
  CHECK(explicit_shared_settings(resolved_from({})).empty());
}

TEST_CASE("a welcome carries every setting of the cluster and no other",
          "[cluster]") {
  auto welcome = shared_settings(values("--max-steps 9"));
  for (const auto& each : all_keys()) {
    auto in = [&](const auto& pair) {
      return pair.first == each.id();
    };
    auto found = std::any_of(welcome.begin(), welcome.end(), in);
    CHECK(found == (each.where == scope::cluster));
  }
}

TEST_CASE("after the welcome the cluster's settings are the server's",
          "[cluster]") {
  for (const auto& [id, sample] : samples()) {
    INFO(id);
    const auto& what = key_of(id);
    auto server = resolved_from({"--" + what.flag, sample}).values;
    auto worker = resolved_from({"--device", "cuda", "--port", "1"}).values;
    auto before = what.get(worker);
    apply_shared_settings(worker, shared_settings(server));
    CHECK(shared_settings(worker) == shared_settings(server));
    CHECK(what.get(worker) == (what.where == scope::cluster ? sample : before));
    CHECK(worker.cluster.port == 1);
    CHECK(worker.training.device == "cuda");
  }
}

TEST_CASE("a limit that the server lacks is unset by the welcome",
          "[cluster]") {
  auto worker = values("");
  REQUIRE(worker.training.epochs == default_epochs);
  apply_shared_settings(worker, shared_settings(values("--max-steps 5")));
  CHECK(worker.training.epochs == std::nullopt);
  CHECK(worker.training.max_steps == 5);
}

TEST_CASE("a welcome that makes no sense changes nothing", "[cluster]") {
  CHECK(
    settings_complaint({{"training.lr", "0.5"}, {"training.colour", "red"}}) ==
    "the parameter server's setting training.colour = red: not known "
    "here; is it another release?");
  CHECK(settings_complaint({{"cluster.port", "1"}}) ==
        "the parameter server's setting cluster.port = 1: not known here; is "
        "it another release?");
  CHECK(settings_complaint({{"training.lr", "-1"}}) ==
        "the parameter server's setting training.lr = -1: must be above 0");
  CHECK(settings_complaint({{"lr", "1"}})
          .starts_with("the parameter server's setting"));
  CHECK(settings_complaint({{"training.lr", "0.5"}}) == "");
}

TEST_CASE("only a different explicit value is a conflict", "[cluster]") {
  CHECK(answer("--batch-size 32", "") == "");
  CHECK(answer("--batch-size 32", "--batch-size 32") == "");
  CHECK(answer("--lr 0.1", "--lr 1e-1") == "");
  CHECK(answer("", "--device cuda --data-dir x --threads 3") == "");
  CHECK(answer("--batch-size 32", "--batch-size 64") ==
        "[training] batch-size = 64 here, but 32 at the parameter server: "
        "leave it out here, or start the parameter server with --batch-size "
        "64");
  CHECK(answer("", "--policy async") ==
        "[policy] name = async here, but sync at the parameter server: leave "
        "it out here, or start the parameter server with --policy async");
  CHECK(answer("--policy sync --network lenet",
               "--policy bsp --network LeNet") == "");
  CHECK(answer("--policy BSP --network LeNet",
               "--policy sync --network lenet") == "");
  CHECK(answer("--workers 3 --epochs 3", "--workers 4 --max-steps 5") == "");
  CHECK(conflicts({}, {{"training.colour", "red"}}) ==
        "setting training.colour: not known to the parameter server; is it "
        "another release?");
}

TEST_CASE("a run's name is compared where both ends give one", "[cluster]") {
  CHECK(answer("", "--run-id night").empty());
  CHECK(answer("--run-id night", "").empty());
  CHECK(answer("--run-id night", "--run-id night").empty());
  CHECK(answer("--run-id night", "--run-id Night") ==
        "its run is 'night', and this node is for 'Night': check --run-id, "
        "host and port");
  // Before other differences, which a node of another run may well have.
  CHECK(answer("--run-id a --lr 0.1", "--lr 0.2 --run-id b")
          .starts_with("its run is 'a'"));
}

TEST_CASE("the digest changes with what shapes the weights only", "[cluster]") {
  auto plain = digest(values(""));
  CHECK(plain.size() == 16);
  CHECK(digest(values("")) == plain);
  for (auto line : {"--lr 0.5", "--seed 2", "--optimizer adam", "--policy ssp",
                    "--dtype float64", "--batch-size 65", "--dataset mnist"})
    CHECK(digest(values(line)) != plain);
  CHECK(digest(values("--policy BSP --network LeNet --dataset Digits")) ==
        plain);
  for (auto line : {"--epochs 3", "--max-steps 3", "--target-accuracy 0.5",
                    "--target loss<=1", "--run-id x", "--best-by max(f1)",
                    "--workers 2", "--eval-freq 3", "--device cuda",
                    "--train-dir x", "--port 1", "--resume", "--threads 2"})
    CHECK(digest(values(line)) == plain);
}

TEST_CASE("a worker that leaves autocast open takes what was decided",
          "[shared]") {
  CHECK(answer("--autocast bf16", "--autocast auto").empty());
  CHECK(answer("--autocast none", "--autocast auto").empty());
  CHECK_FALSE(answer("--autocast none", "--autocast bf16").empty());
}
