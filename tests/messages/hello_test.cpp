// The admission's words must be understood by every version of Troupe.

#include "messages/proto/hello.pb.h"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

// Field 1 of both messages, `protocol` of a Hello and `accepted` of a Welcome,
// as protobuf writes a number below 128.
std::string small_number(int field, int value) {
  return {static_cast<char>(field << 3), static_cast<char>(value)};
}

// A field that this version does not know, with a text.
std::string unknown_text(int field, const std::string& text) {
  std::string out;
  auto tag = static_cast<unsigned>(field << 3 | 2);
  for (; tag >= 128; tag >>= 7)
    out += static_cast<char>(tag % 128 + 128);
  out += static_cast<char>(tag);
  out += static_cast<char>(text.size());
  return out + text;
}

} // namespace

TEST_CASE("hello comes through its bytes") {
  proto::Hello hello;
  hello.set_protocol(1);
  hello.set_troupe_version("0.1.0");
  hello.set_role("worker");
  hello.set_name("host:42");
  auto* setting = hello.add_explicit_();
  setting->set_key("training.lr");
  setting->set_value("0.01");
  proto::Hello copy;
  REQUIRE(copy.ParseFromString(hello.SerializeAsString()));
  CHECK(copy.protocol() == 1);
  CHECK(copy.troupe_version() == "0.1.0");
  CHECK(copy.role() == "worker");
  CHECK(copy.name() == "host:42");
  REQUIRE(copy.explicit__size() == 1);
  CHECK(copy.explicit_(0).key() == "training.lr");
  CHECK(copy.explicit_(0).value() == "0.01");
}

TEST_CASE("welcome comes through its bytes") {
  proto::Welcome welcome;
  welcome.set_accepted(true);
  welcome.set_refusal("no");
  welcome.set_protocol(2);
  welcome.set_troupe_version("0.1.0");
  welcome.mutable_description()->set_run_id("ab");
  welcome.set_server_incarnation(3);
  welcome.set_parameters(431'080);
  welcome.set_element_type(2);
  proto::Welcome copy;
  REQUIRE(copy.ParseFromString(welcome.SerializeAsString()));
  CHECK(copy.accepted());
  CHECK(copy.refusal() == "no");
  CHECK(copy.protocol() == 2);
  CHECK(copy.troupe_version() == "0.1.0");
  CHECK(copy.description().run_id() == "ab");
  CHECK(copy.server_incarnation() == 3);
  CHECK(copy.parameters() == 431'080);
  CHECK(copy.element_type() == 2);
}

TEST_CASE("the numbers of the fields stay for ever") {
  proto::Hello hello;
  REQUIRE(hello.ParseFromString(small_number(1, 1) + unknown_text(2, "b") +
                                unknown_text(3, "c") + unknown_text(4, "d")));
  CHECK(hello.protocol() == 1);
  CHECK(hello.troupe_version() == "b");
  CHECK(hello.role() == "c");
  CHECK(hello.name() == "d");
  proto::Welcome welcome;
  REQUIRE(welcome.ParseFromString(small_number(1, 1) + unknown_text(2, "b") +
                                  small_number(3, 3) + unknown_text(4, "d") +
                                  small_number(6, 6) + small_number(8, 8) +
                                  small_number(9, 1)));
  CHECK(welcome.accepted());
  CHECK(welcome.refusal() == "b");
  CHECK(welcome.protocol() == 3);
  CHECK(welcome.troupe_version() == "d");
  CHECK(welcome.server_incarnation() == 6);
  CHECK(welcome.parameters() == 8);
  CHECK(welcome.element_type() == 1);
}

TEST_CASE("a hello of another version can be read") {
  for (int protocol : {0, 1, 2, 99}) {
    proto::Hello hello;
    hello.set_protocol(static_cast<uint32_t>(protocol));
    hello.set_role("worker");
    auto bytes = hello.SerializeAsString() + unknown_text(19, "new in 2") +
                 unknown_text(2000, "newer");
    proto::Hello found;
    REQUIRE(found.ParseFromString(bytes));
    CHECK(found.protocol() == static_cast<uint32_t>(protocol));
    CHECK(found.role() == "worker");
  }
}

TEST_CASE("bytes that are no hello are refused") {
  proto::Hello hello;
  CHECK_FALSE(hello.ParseFromString("GET / HTTP/1.1"));
}

TEST_CASE("a setting may hold any bytes, as paths do") {
  const std::string path = "script:/data/caf\xe9.pt";
  proto::Welcome welcome;
  auto* setting = welcome.mutable_description()->add_settings();
  setting->set_key("training.network");
  setting->set_value(path);
  welcome.set_refusal(path);
  proto::Welcome copy;
  REQUIRE(copy.ParseFromString(welcome.SerializeAsString()));
  CHECK(copy.description().settings(0).value() == path);
  CHECK(copy.refusal() == path);
}
