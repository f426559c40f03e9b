// An event log. The first byte says what the others are: the file as it is, or
// events (two bytes of length, then the event) that are numbered and sealed
// here, since no mutation would meet a checksum.

#include "actors/log_files/crc32c.hpp"
#include "actors/log_files/event_log_file.hpp"
#include "apps/lab/replay/recorded_run.hpp"
#include "config/runs/replay_settings.hpp"
#include "messages/run_record.hpp"
#include "tests/fuzz/descriptions.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"

#include <cstring>
#include <string>

namespace troupe::fuzz {

namespace {

std::string numbered(bytes_view body, uint64_t number) {
  proto::LogEvent event;
  if (!event.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return std::string{text_of(body)};
  event.set_number(number);
  event.clear_crc32c();
  return event.SerializeAsString();
}

std::string length_of(size_t size) {
  std::string out;
  for (; size >= 0x80; size >>= 7)
    out += static_cast<char>(0x80 | (size & 0x7f));
  return out + static_cast<char>(size);
}

std::string sealed(const std::string& body) {
  auto sum = recording::crc32c(std::as_bytes(std::span{body}));
  std::string seal{"\x85\x01", 2};
  seal.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return length_of(body.size() + seal.size()) + body + seal;
}

std::string event_log_of(bytes_view events) {
  std::string out;
  for (uint64_t number = 1; !events.empty(); ++number) {
    auto size = take_number<uint16_t>(events);
    out += sealed(numbered(take_bytes(events, size), number));
  }
  return out;
}

bool read_all(const memory_file& file) {
  return taken([&] {
    recording::event_log_reader reader{file.path()};
    proto::LogEvent event;
    uint64_t count = 1;
    while (reader.next(event))
      require(event.number() == ++count, "events are numbered");
    require(reader.events() == count, "events are counted");
  });
}

/// Checks that a replay accepts the same events as the event log holds.
void replay(const memory_file& file) {
  replay::recorded_run script{file.path()};
  while (script.next_time()) {
    script.advance();
    if (!script.closed())
      script.check(script.current());
  }
}

/// Replays the events so that each comes late, and once.
void replay_late(const memory_file& file) {
  replay::recorded_run script{file.path()};
  script.allow_early_stop();
  while (script.next_time()) {
    auto before = script.current();
    script.advance();
    script.check(before);
  }
}

void resume_log(const memory_file& file) {
  recording::event_log_reader reader{file.path()};
  auto here = config::resolve_replay(reader.begin().config_ini(), "x", {});
  compare(description_of(reader.begin()),
          config::shared_settings(here.all.values));
}

} // namespace

bool event_log(bytes_view data) {
  auto as_it_is = take_number<uint8_t>(data) % 2 == 0;
  memory_file file{as_it_is ? std::string{text_of(data)} : event_log_of(data)};
  if (!read_all(file))
    return false;
  replay(file);
  taken([&] { replay_late(file); });
  taken([&] { resume_log(file); });
  return true;
}

} // namespace troupe::fuzz
