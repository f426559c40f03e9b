#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "config/values/address.hpp"
#include "config/values/distribution.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <random>

using namespace troupe::config;

namespace {

std::string reason(const std::string& declared) {
  try {
    parse_distribution(declared);
    return "";
  } catch (const bad_value& why) {
    return why.what();
  }
}

} // namespace

TEST_CASE("doubles round-trip by text", "[value]") {
  CHECK(print(0.01) == "0.01");
  CHECK(print(60.0) == "60");
  CHECK(print(100000.0) == "100000");
  CHECK(print(0.0005) == "0.0005");
  CHECK(print(1e-8) == "1e-08");
  CHECK(print(1e300) == "1e+300");
  std::mt19937_64 random{3};
  for (int i = 0; i < 10000; ++i) {
    auto value = std::ldexp(static_cast<double>(random()),
                            static_cast<int>(random() % 200) - 150);
    REQUIRE(parse<double>(print(value)) == value);
  }
}

TEST_CASE("switches read the usual words", "[value]") {
  for (auto yes : {"true", "yes", "on", "1"})
    CHECK(parse<bool>(yes));
  for (auto no : {"false", "no", "off", "0"})
    CHECK_FALSE(parse<bool>(no));
  CHECK_THROWS_AS(parse<bool>("TRUE"), bad_value);
}

TEST_CASE("every word of an enum reads back", "[value]") {
  for (const auto& [value, word] : words(role{}))
    CHECK(parse<role>(word) == value);
  CHECK(alternatives<clock_kind>() == "real|virtual");
  CHECK(print(parallel_mode::remote_forward) == "remote-forward");
}

TEST_CASE("capitals, '-' and '_' do not count in the words of an enum",
          "[value]") {
  CHECK(parse<buffers_rule>("Local") == buffers_rule::local);
  CHECK(parse<parallel_mode>("remote_forward") ==
        parallel_mode::remote_forward);
  CHECK_THROWS_AS(parse<buffers_rule>("l ocal"), bad_value);
  CHECK_THROWS_AS(parse<buffers_rule>("-"), bad_value);
}

TEST_CASE("the field's other words for a type are understood", "[value]") {
  CHECK(parse<scalar_type>("fp64") == scalar_type::float64);
  CHECK(parse<autocast_kind>("bfloat16") == autocast_kind::bf16);
  CHECK(parse<autocast_kind>("float16") == autocast_kind::fp16);
  CHECK(parse<autocast_kind>("auto") == autocast_kind::automatic);
}

TEST_CASE("a name is found however it is spelt, if only one can be meant",
          "[value]") {
  const std::vector<std::string> names{"resnet18", "vgg11_bn", "MyNet",
                                       "mynet",    "a-b",      "ab"};
  CHECK(spelt("resnet18", names) == "resnet18");
  CHECK(spelt("ResNet-18", names) == "resnet18");
  CHECK(spelt("VGG11-BN", names) == "vgg11_bn");
  CHECK(spelt("vgg11bn", names) == "vgg11_bn");
  CHECK(spelt("MyNet", names) == "MyNet");
  CHECK(spelt("mynet", names) == "mynet");
  CHECK(spelt("MYNET", names) == std::nullopt);
  CHECK(spelt("A-B", names) == std::nullopt);
  CHECK(spelt("resnet", names) == std::nullopt);
  CHECK(spelt("", names) == std::nullopt);
  CHECK(spelt("-_", names) == std::nullopt);
}

TEST_CASE("text is shown escaped and short", "[value]") {
  CHECK(shown("a\tb") == "a\\x09b");
  CHECK(shown(std::string(500, 'x')).size() == 83);
  // Letters of two bytes: none is cut in half.
  std::string letters;
  for (int i = 0; i < 50; ++i)
    letters += "\xc3\xa9";
  CHECK(shown(letters) == letters.substr(0, 80) + "...");
  CHECK(shown("x" + letters) == "x" + letters.substr(0, 78) + "...");
  CHECK(trim(" \ta b\t ") == "a b");
  CHECK(trim(" \t") == "");
}

TEST_CASE("addresses are host and port", "[address]") {
  CHECK(parse_address("ps:1") == address{"ps", 1});
  CHECK(parse_address("[::1]:4242") == address{"::1", 4242});
  CHECK(to_string(address{"::1", 4242}) == "[::1]:4242");
  CHECK(to_string(address{"10.0.0.1", 1}) == "10.0.0.1:1");
  for (auto text : {"", ":", ":1", "a", "a:", "a:x", "a:65536", "::1", "[]:1"})
    CHECK_THROWS_AS(parse_address(text), bad_value);
  CHECK(parse_host("ps") == address{"ps", 0});
  CHECK(parse_host("ps:1") == address{"ps", 1});
  CHECK(parse_host("::1") == address{"::1", 0});
  CHECK(parse_host("[::1]") == address{"::1", 0});
  CHECK(parse_host("[::1]:1") == address{"::1", 1});
  for (auto text : {"", ":", ":1", "a:", "a:x", "a:0", "a:65536", "[]", "[]:1"})
    CHECK_THROWS_AS(parse_host(text), bad_value);
}

TEST_CASE("loopback is what only this machine reaches", "[address]") {
  for (auto host : {"127.0.0.1", "127.255.255.255", "localhost", "::1"})
    CHECK(is_loopback(host));
  for (auto host :
       {"", "0.0.0.0", "128.0.0.1", "127.0.0", "127.0.0.256", "127.0.0.1.",
        "127.0.0.1.example.org", "127.a.0.1", "127.0.0.-1", "127.0.0.0001",
        "localhost.example.org", "::", "::2", "12.7.0.0.1"})
    CHECK_FALSE(is_loopback(host));
}

TEST_CASE("distributions are read with all their parameters",
          "[distribution]") {
  CHECK(parse_distribution("constant(1.5)").numbers.at("value") == 1.5);
  CHECK(parse_distribution("constant(value=2)").numbers.at("value") == 2);
  auto gamma = parse_distribution(" gamma( mean = 1 , cv = 0.1 ) ");
  CHECK(gamma.name == "gamma");
  CHECK(gamma.numbers.at("mean") == 1);
  CHECK(gamma.numbers.at("cv") == 0.1);
  CHECK(reason("exp(offset=0.5,mean=0.5)") == "");
  CHECK(reason("pareto(alpha=2.5,mean=1)") == "");
  CHECK(reason("slow(base=constant(1),worker=0,factor=4)") == "");
  auto transient =
    parse_distribution("transient(base=gamma(mean=1,cv=0.1),p=0.05,factor=5)");
  CHECK(transient.base->numbers.at("cv") == 0.1);
  CHECK(transient.numbers.at("factor") == 5);
}

TEST_CASE("a wrong distribution says what is wrong", "[distribution]") {
  CHECK(reason("gama(mean=1,cv=1)") ==
        "'gama' is no distribution; known: constant, gamma, exp, pareto, "
        "transient, slow; did you mean 'gamma'?");
  CHECK(reason("gamma") == "must be gamma(...)");
  CHECK(reason("gamma(mean=1,cv=1") == "must be gamma(...)");
  CHECK(reason("gamma(mean=1,cv=1) x") == "must be gamma(...)");
  CHECK(reason("gamma(mean=1)") == "gamma needs cv, standard deviation / mean");
  CHECK(reason("gamma(1,2)") == "'1' must be NAME=VALUE");
  CHECK(reason("gamma(mean=1,mean=2)") == "mean of gamma is given twice");
  CHECK(reason("gamma(mean=1,sd=2)") ==
        "gamma has no parameter 'sd', it has mean, cv");
  CHECK(reason("gamma(mean=x,cv=1)") == "mean of gamma must be a number");
  CHECK(reason("gamma(mean=0,cv=1)") == "mean of gamma must be above 0");
  CHECK(reason("constant()") == "constant needs value, seconds");
  CHECK(reason("pareto(alpha=1,mean=1)") == "alpha of pareto must be above 1");
  CHECK(reason("slow(worker=0,factor=4)") ==
        "slow needs base, what is made slower");
  CHECK(reason("slow(base=constant(1),worker=0.5,factor=4)") ==
        "worker of slow must be a whole number");
  CHECK(reason("transient(base=constant(1),p=2,factor=5)") ==
        "p of transient must be from 0 to 1");
  CHECK(reason("constant(1))") == "has a ')' too many");
  CHECK(reason("constant((1)") == "lacks a ')'");
}

TEST_CASE("nesting is bounded", "[distribution]") {
  std::string deep = "constant(1)";
  for (int i = 0; i < 5000; ++i)
    deep = "slow(base=" + deep + ",worker=0,factor=2)";
  CHECK(reason(deep) == "is nested too deeply");
}

TEST_CASE("momentum and asynchrony add up to the momentum of sync") {
  CHECK(asynchronous_momentum(1) == 0.9);
  CHECK(asynchronous_momentum(2) == 0.4);
  CHECK(asynchronous_momentum(3) == 0.23);
  CHECK(asynchronous_momentum(4) == 0.15);
  CHECK(asynchronous_momentum(10) == 0);
  CHECK(asynchronous_momentum(64) == 0);
}
