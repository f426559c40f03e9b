// What a peer says at the door, as the doorkeeper takes it; and what a peer is
// told there.

#include "config/cast.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/transport/compression.hpp"
#include "messages/transport/socket.hpp"
#include "tests/fuzz/targets.hpp"

#include <limits>

namespace troupe::fuzz {

namespace {

template <class Message>
bool parse(Message& out, bytes_view data) {
  return data.size() <= std::numeric_limits<int>::max() &&
         out.ParseFromArray(data.data(), static_cast<int>(data.size()));
}

template <class Settings>
config::pairs pairs_of(const Settings& from) {
  config::pairs out;
  for (const auto& one : from)
    out.emplace_back(one.key(), one.value());
  return out;
}

/// As a connector does with `cluster.compression`.
void make_codec(const config::settings& of, const proto::Welcome& welcome) {
  if (welcome.packed_parameters() > welcome.parameters())
    return;
  auto numbers = welcome.packed_parameters();
  auto codec =
    transport::make_codec(config::parse_compression(of.cluster.compression),
                          numbers, welcome.parameters() - numbers);
  require(!codec || codec->numbers() == numbers, "all numbers are packed");
}

/// The settings of a cast come through another welcome as they are.
void pass_on(const config::settings& of) {
  proto::Welcome welcome;
  for (auto& [key, value] : config::cast_settings(of)) {
    auto* one = welcome.add_settings();
    one->set_key(key);
    one->set_value(value);
  }
  proto::Welcome arrived;
  require(arrived.ParseFromString(welcome.SerializeAsString()),
          "a welcome can be read");
  config::settings taken_over;
  config::apply_cast_settings(taken_over, pairs_of(arrived.settings()));
  require(config::cast_settings(taken_over) == config::cast_settings(of),
          "settings come through a welcome");
}

} // namespace

bool hello(bytes_view data) {
  proto::Hello hello;
  if (!parse(hello, data))
    return false;
  auto why = config::conflicts({}, pairs_of(hello.explicit_()));
  require_one_line(why);
  proto::Welcome answer;
  answer.set_refusal(why);
  proto::Welcome arrived;
  require(arrived.ParseFromString(answer.SerializeAsString()) &&
            arrived.refusal() == why,
          "a refusal can be read");
  return why.empty();
}

bool welcome(bytes_view data) {
  proto::Welcome welcome;
  if (!parse(welcome, data))
    return false;
  config::settings own;
  auto before = config::cast_settings(own);
  auto fits = taken(
    [&] { config::apply_cast_settings(own, pairs_of(welcome.settings())); });
  require(fits || config::cast_settings(own) == before,
          "settings that do not fit change nothing");
  if (!fits)
    return false;
  make_codec(own, welcome);
  pass_on(own);
  return true;
}

} // namespace troupe::fuzz
