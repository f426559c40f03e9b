// The rules of --compute external, and of what is computed elsewhere.

#include "config/rules/external_compute.hpp"
#include "config/text/failure.hpp"
#include "config/text/value.hpp"
#include "config/values/external.hpp"
#include "config/values/script.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::config;
using namespace troupe::config::test;

namespace {

const std::string server_of_description =
  "--network weights:net.safetensors --dataset external(samples=9) ";

std::string said(const std::string& line) {
  return complaint([&] { parse(split(line)); });
}

} // namespace

TEST_CASE("external data has a size and an id") {
  auto read = parse_external("external(samples=60000,id=mnist)");
  CHECK(read.samples == 60000);
  CHECK(read.id == "mnist");
  CHECK(to_string(read) == "external(samples=60000,id=mnist)");
  CHECK(to_string(parse_external("external( samples=7 )")) ==
        "external(samples=7,id=data)");
  CHECK(said("--role ps --dataset external") ==
        "--dataset external: external needs samples, for training");
  CHECK(said("--role ps --dataset external(samples=0)") ==
        "--dataset external(samples=0): samples of external must be at least "
        "1");
}

TEST_CASE("networks in files have a kind and a short name") {
  CHECK(is_described("weights:a/net.safetensors"));
  CHECK_FALSE(is_script("weights:a/net.safetensors"));
  CHECK(network_file("weights:a:b/net.safetensors") == "a:b/net.safetensors");
  CHECK(short_name("weights:a/net.safetensors") == "net");
  CHECK(said("--role ps --network weights:") ==
        "--network weights:: must name a file: script:FILE or weights:FILE");
}

TEST_CASE("a server of a described network needs to know the samples alone") {
  CHECK(said("--role ps " + server_of_description) == "");
  CHECK(said("--role ps --network weights:x") ==
        "--network weights:x: who computes it has the samples; say how many "
        "there are, with --dataset 'external(samples=N,id=NAME)'");
  for (auto flag : {"--label-smoothing 0.1", "--micro-batch-size 3",
                    "--autocast bf16", "--buffers first", "--replicas 2"})
    CHECK(said("--role ps " + server_of_description + flag) ==
          std::string{flag} + ": is for a network that Troupe computes; with "
                              "--compute external leave it out");
}

TEST_CASE("external computation is for workers and evaluators with a socket") {
  CHECK(said("--role worker --compute external --compute-socket s") == "");
  CHECK(said("--role worker --compute external") ==
        "--compute external: say where the process is to connect, with "
        "--compute-socket PATH");
  CHECK(said("--role worker --compute-socket s") ==
        "--compute-socket s: is for --compute external");
  CHECK(said("--role ps --compute external") == "");
  CHECK(said("--role evaluator --compute external --compute-socket s") == "");
  CHECK(said("--role evaluator --compute external")
          .starts_with("--compute external: say where the process is to"));
  CHECK(said("--role evaluator --compute-socket s")
          .starts_with("--compute-socket s: is for --compute external"));
  CHECK(said("--role evaluator --compute external --compute-socket s "
             "--follow runs/x")
          .starts_with("--follow runs/x: with --compute external an evaluator "
                       "gets its weights from the parameter server"));
  CHECK(said("--simulate --compute external")
          .starts_with("--compute external: --simulate computes in this "));
  CHECK(said("--simulate --network weights:x")
          .starts_with("--network weights:x: is computed by other processes"));
  CHECK(said("--simulate --dataset external(samples=9)")
          .starts_with("--dataset external(samples=9,id=data): only "));
}

TEST_CASE("who joins has to be able to compute") {
  settings joined;
  auto refusal = [&] {
    return complaint([&] { require_who_computes(joined); });
  };
  CHECK(refusal() == "");
  joined.training.network = "weights:x";
  CHECK(refusal() == "--network weights:x: is computed by another process; "
                     "start this node with --compute external");
  joined.training.network = "lenet";
  joined.data.dataset = "external(samples=9,id=data)";
  CHECK(refusal().starts_with("--dataset external(samples=9,id=data): only "));
  joined.training.compute = compute_kind::external;
  CHECK(refusal() == "");
  joined.training.label_smoothing = 0.1;
  CHECK(refusal() ==
        "the parameter server's setting training.label-smoothing: is for a "
        "network that Troupe computes; with --compute external leave it out");
}
