#include "config/commands/command_line.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe::config;
using namespace troupe::config::test;

TEST_CASE("a flag beats the environment beats the file beats the default",
          "[precedence]") {
  scratch folder;
  auto file = folder.write("a.ini", "[training]\nlr = 0.2\nmomentum = 0.2\n"
                                    "weight-decay = 0.2\n");
  environment variables{{"TROUPE_TRAINING_LR", "0.3"},
                        {"TROUPE_TRAINING_MOMENTUM", "0.3"}};
  auto all = resolved_from({"--lr", "0.4", "--config", file}, variables);
  CHECK(all.values.training.lr == 0.4);
  CHECK(all.values.training.momentum == 0.3);
  CHECK(all.values.training.weight_decay == 0.2);
  CHECK(all.values.training.beta1 == training_settings{}.beta1);
  CHECK(all.origin_of("training.lr").to_string() == "flag --lr");
  CHECK(all.origin_of("training.momentum").to_string() ==
        "environment TROUPE_TRAINING_MOMENTUM");
  CHECK(all.origin_of("training.weight-decay").to_string() == file + ":4");
  CHECK(all.origin_of("training.beta1").to_string() == "default");
  CHECK(all.is_explicit("training.weight-decay"));
  CHECK_FALSE(all.is_explicit("training.beta1"));
}

TEST_CASE("epsilon has the optimiser's default", "[precedence]") {
  auto epsilon = [](const std::string& line) {
    return resolved_from(split(line)).values.training.epsilon;
  };
  CHECK(epsilon("--optimizer adam") == 1e-8);
  CHECK(epsilon("--optimizer adagrad") == 1e-10);
  CHECK(epsilon("--optimizer adagrad --epsilon 1e-6") == 1e-6);
}

TEST_CASE("among flags, --set included, the last one counts", "[precedence]") {
  CHECK(resolved_from(split("--lr 1 --lr 2")).values.training.lr == 2);
  CHECK(resolved_from(split("--lr 1 --set training.lr=3")).values.training.lr ==
        3);
  CHECK(resolved_from(split("--set training.lr=3 --lr 1")).values.training.lr ==
        1);
}

TEST_CASE("only the value that counts is looked at", "[precedence]") {
  scratch folder;
  auto file = folder.write("a.ini", "[cluster]\nshards = 0\n");
  CHECK(
    resolved_from({"--config", file, "--shards", "1"}).values.cluster.shards ==
    1);
}

TEST_CASE("an empty variable counts as not given", "[precedence]") {
  auto all = resolved_from({}, {{"TROUPE_TRAINING_LR", ""}});
  CHECK_FALSE(all.is_explicit("training.lr"));
}

TEST_CASE("variables of others are not ours to judge", "[precedence]") {
  CHECK_NOTHROW(resolved_from(
    {}, {{"TROUPE_CACHE", "x"}, {"TROUPE_TORCH_DIR", "y"}, {"PATH", "z"}}));
}

TEST_CASE("what Kubernetes says about a service is passed over",
          "[precedence]") {
  environment all;
  for (std::string name : {"TROUPE", "TROUPE_DATA", "TROUPE_POLICY",
                           "TROUPE_CLUSTER", "TROUPE_TRAINING_SET"})
    for (const auto& [ending, value] :
         environment{{"_SERVICE_HOST", "10.96.3.7"},
                     {"_SERVICE_PORT", "4242"},
                     {"_SERVICE_PORT_GRPC_WEB", "4242"},
                     {"_PORT", "tcp://10.96.3.7:4242"},
                     {"_PORT_4242_TCP", "tcp://10.96.3.7:4242"},
                     {"_PORT_4242_TCP_PROTO", "tcp"},
                     {"_PORT_4242_TCP_PORT", "4242"},
                     {"_PORT_4242_TCP_ADDR", "10.96.3.7"},
                     {"_PORT_53_UDP", "udp://10.96.3.7:53"},
                     {"_PORT_7_SCTP_ADDR", "fd00::7"}})
      all[name + ending] = value;
  CHECK(resolved_from({}, all).values == resolved_from({}).values);
  CHECK_NOTHROW(
    resolved_from({}, {{"TROUPE_DATA_PORT", "tcp://10.96.3.7:80"}}));
}

TEST_CASE("a misspelt variable is refused, also one about ports",
          "[precedence]") {
  for (std::string name :
       {"TROUPE_DATA_DIR", "TROUPE_CLUSTER_PORTS", "TROUPE_DATA_PORT",
        "TROUPE_CLUSTER_PORT_TCP", "TROUPE_CLUSTER_SERVICE",
        "TROUPE_TRAINING_PORT_TCP_ADDR"})
    CHECK(complaint([&] {
            resolved_from({}, {{name, "80"}});
          }).starts_with("environment: unknown variable " + name));
  // No service put it there.
  CHECK(complaint([] {
          resolved_from({}, {{"TROUPE_CLUSTER_PORT", "tcp://10.0.0.1:4242"}});
        }) ==
        "TROUPE_CLUSTER_PORT=tcp://10.0.0.1:4242: must be a whole number");
}

TEST_CASE("epochs has a default only when no limit is given", "[limits]") {
  auto limits = [](const std::string& line) {
    return resolved_from(split(line)).values.training;
  };
  CHECK(limits("").epochs == default_epochs);
  CHECK(limits("--epochs 3").epochs == 3);
  CHECK(limits("--max-steps 5").epochs == std::nullopt);
  CHECK(limits("--target-accuracy 0.9").epochs == std::nullopt);
  CHECK(limits("--max-steps 5 --epochs 2").epochs == 2);
  CHECK(limits("--epochs=").epochs == default_epochs);
  CHECK(resolved_from({}, {{"TROUPE_TRAINING_MAX_STEPS", "5"}})
          .values.training.epochs == std::nullopt);
  scratch folder;
  auto file = folder.write("a.ini", "[training]\nepochs = 9\n");
  auto all = resolved_from({"--config", file, "--max-steps=7", "--epochs", ""});
  CHECK(all.values.training.epochs == std::nullopt);
  CHECK(all.values.training.max_steps == 7);
}

TEST_CASE("a flag that may stand alone may also have a value", "[flags]") {
  auto training = [](const std::string& line) {
    return resolved_from(split(line)).values.training;
  };
  CHECK(training("--overwrite").overwrite);
  CHECK(training("--overwrite true --lr 1").overwrite);
  CHECK_FALSE(training("--overwrite=false").overwrite);
  CHECK_FALSE(training("--overwrite no").overwrite);
  CHECK(training("--resume").resume == "auto");
  CHECK(training("--resume --lr 1").resume == "auto");
  CHECK(training("--resume runs/a").resume == "runs/a");
  CHECK(training("").resume == std::nullopt);
}

TEST_CASE("a negative number is a value, not a flag", "[flags]") {
  CHECK(complaint([] { resolved_from(split("--weight-decay -1")); }) ==
        "--weight-decay -1: must be at least 0");
}

TEST_CASE("the role is read", "[flags]") {
  CHECK(parse(split("--simulate")).config.values.what == role::simulate);
  CHECK(parse(split("--role ps")).config.values.what == role::ps);
  CHECK(parse(split("--role worker")).config.values.what == role::worker);
  CHECK(parse(split("--role=evaluator")).config.values.what == role::evaluator);
}

TEST_CASE("actions come with their text", "[flags]") {
  CHECK(parse(split("--simulate")).what == action::run);
  CHECK(parse(split("--simulate")).text.empty());
  CHECK(parse(split("--version")).what == action::version);
  CHECK(parse(split("--version")).text.starts_with("trainer_node "));
  CHECK(parse(split("--help")).what == action::help);
  CHECK(parse(split("-h --role ps")).what == action::help);
  CHECK(parse(split("--simulate --check")).what == action::check);
  CHECK(parse(split("--print-config")).what == action::print_config);
}

TEST_CASE("print-config shows what would be refused", "[flags]") {
  auto text = parse(split("--print-config --shards 2 --role ps")).text;
  CHECK(text.find("shards = 2 ") != std::string::npos);
}

TEST_CASE("a network that strangers reach needs consent", "[trust]") {
  CHECK_NOTHROW(parse(split("--role ps --host 127.3.2.1")));
  CHECK_NOTHROW(parse(split("--role ps --host ::1")));
  CHECK_NOTHROW(parse(split("--role worker --host localhost")));
  CHECK_NOTHROW(parse(split("--role ps --host 0.0.0.0 --insecure-network")));
  CHECK_NOTHROW(parse(split("--simulate --host 10.0.0.1")));
  CHECK_NOTHROW(
    parse(split("--role evaluator --host 10.0.0.1 --follow runs/a")));
  for (auto role : {"ps", "worker", "evaluator"})
    for (auto host : {"0.0.0.0", "10.0.0.1", "example.org",
                      "::", "127.0.0.1.example.org", "127.1", "127.0.0.256"}) {
      INFO(role << " at " << host);
      auto line = complaint([&] { parse({"--role", role, "--host", host}); });
      CHECK(line.starts_with("--host " + std::string{host} +
                             ": is no loopback address"));
      CHECK(line.find("--insecure-network") != std::string::npos);
    }
}

TEST_CASE("an IPv6 host may have brackets, and is shown with them", "[trust]") {
  CHECK(resolved_from(split("--host [::1]")).values.cluster.host == "::1");
  CHECK(resolved_from({}, {{"TROUPE_CLUSTER_HOST", "[fd00::7]"}})
          .values.cluster.host == "fd00::7");
  CHECK_NOTHROW(parse(split("--role ps --host [::1]")));
  CHECK(
    parse(split("--role ps --host [::1] --check")).text.find("[::1]:4242") !=
    std::string::npos);
  for (auto host : {"[::1", "::1]", "[10.0.0.1]", "[]", "[[::1]]", "[::1]:80"})
    CHECK(complaint([&] {
            resolved_from({"--host", host});
          }) == "--host " + std::string{host} +
                  ": must be a host name or an address");
}

TEST_CASE("what is said about TLS must be enough, and no more", "[trust]") {
  auto row = GENERATE(table<std::string, std::string>({
    {"--role ps --tls-dir d", ""},
    {"--role ps --host 10.0.0.1 --tls-dir d", ""},
    {"--role ps --tls-cert c --tls-key k --token-file t", ""},
    {"--role ps --tls-cert c --tls-key k --tls-ca a", ""},
    {"--role ps --token-file t", ""},
    {"--role worker --token-file t --tls-pin p", ""},
    {"--role worker --token-file t --tls-ca a", ""},
    {"--role worker --tls-dir d --transport nccl", ""},
    {"--role ps --tls-dir d --tls-cert c",
     "--tls-cert c: says the same as --tls-dir: give one of them"},
    {"--role ps --tls-cert c",
     "--tls-cert c: needs the other of --tls-cert and --tls-key"},
    {"--role ps --tls-key k",
     "--tls-key k: needs the other of --tls-cert and --tls-key"},
    {"--role ps --tls-ca a --token-file t", "--tls-ca a: is not enough"},
    {"--role ps --tls-cert c --tls-key k",
     "--tls-cert c: lets in whoever comes: give --tls-ca"},
    {"--role worker --tls-cert c --tls-key k",
     "--tls-cert c: does not say whom to believe: give --tls-ca"},
    {"--role worker --tls-ca a",
     "--tls-ca a: does not say who this node is: give --tls-dir"},
    {"--role worker --tls-min 1.1", "--tls-min 1.1: must be one of 1.2, 1.3"},
    {"--role worker --host 10.0.0.1 --tls-dir d --transport nccl",
     "--transport nccl: NCCL's own connections between hosts are not "
     "encrypted; add --insecure-network"},
  }));
  auto line = complaint([&] { parse(split(std::get<0>(row))); });
  INFO(std::get<0>(row) << " -> " << line);
  CHECK(line.starts_with(std::get<1>(row)));
  CHECK(line.empty() == std::get<1>(row).empty());
}

TEST_CASE("NCCL needs consent where any other path does", "[trust]") {
  CHECK_NOTHROW(parse(split("--role worker --transport nccl")));
  auto line = complaint(
    [] { parse(split("--role ps --transport nccl --host 0.0.0.0")); });
  CHECK(line.starts_with("--host 0.0.0.0: "));
}

TEST_CASE("every role accepts every flag", "[flags]") {
  for (auto role : {"ps", "worker", "evaluator"})
    CHECK_NOTHROW(parse(
      split("--eval-freq 5 --policy ssp --staleness 2 --overwrite --keep 2 "
            "--follow ps --threads 1 --role " +
            std::string{role})));
}
