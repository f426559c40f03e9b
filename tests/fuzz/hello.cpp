// The hello of a peer, as the admission actor reads it, and the welcome, as a
// peer reads it.

#include "config/runs/shared_settings.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/run_record.hpp"
#include "messages/transport/compression/compression.hpp"
#include "messages/transport/wire/socket.hpp"
#include "tests/fuzz/descriptions.hpp"
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

/// Makes a codec as a session client does for `cluster.compression`.
void make_codec(const config::settings& of, const proto::Welcome& welcome) {
  if (welcome.compressed_parameters() > welcome.parameters())
    return;
  auto numbers = welcome.compressed_parameters();
  auto codec =
    transport::make_codec(config::parse_compression(of.cluster.compression),
                          numbers, welcome.parameters() - numbers);
  require(!codec || codec->numbers() == numbers, "all numbers are compressed");
}

/// Checks that a description comes through another welcome unchanged.
void pass_on(config::run_description description, const config::settings& of) {
  description.settings = config::shared_settings(of);
  proto::Welcome welcome;
  put(description, *welcome.mutable_description());
  proto::Welcome arrived;
  require(arrived.ParseFromString(welcome.SerializeAsString()),
          "a welcome can be read");
  require(description_of(arrived) == description,
          "a run comes through a welcome");
  config::settings taken_over;
  config::apply_shared_settings(taken_over, description.settings);
  require(config::shared_settings(taken_over) == description.settings,
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
  auto before = config::shared_settings(own);
  auto run = description_of(welcome);
  compare(run, before);
  auto fits = taken([&] { config::apply_shared_settings(own, run.settings); });
  require(fits || config::shared_settings(own) == before,
          "settings that do not fit change nothing");
  if (!fits)
    return false;
  make_codec(own, welcome);
  pass_on(std::move(run), own);
  return true;
}

} // namespace troupe::fuzz
