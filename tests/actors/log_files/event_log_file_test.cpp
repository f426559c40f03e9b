#include "actors/log_files/event_log_file.hpp"
#include "config/text/failure.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::recording;
using google::protobuf::FieldDescriptor;
using google::protobuf::util::MessageDifferencer;
using test::error_line;
using testing::slurp;
using testing::spill;
using testing::temporary_folder;

namespace {

using random_bits = std::mt19937_64;

/// Numbers of every length.
uint64_t number(random_bits& random) {
  return random() >> (random() % 64);
}

std::string text(random_bits& random) {
  std::string out(random() % 20, '\0');
  for (auto& x : out)
    x = static_cast<char>('a' + random() % 26);
  return out;
}

void fill(google::protobuf::Message& out, random_bits& random);

void set(google::protobuf::Message& out, const FieldDescriptor& field,
         random_bits& random) {
  const auto& to = *out.GetReflection();
  auto many = field.is_repeated();
  switch (field.cpp_type()) {
  case FieldDescriptor::CPPTYPE_MESSAGE:
    fill(many ? *to.AddMessage(&out, &field) : *to.MutableMessage(&out, &field),
         random);
    break;
  case FieldDescriptor::CPPTYPE_STRING:
    to.SetString(&out, &field, text(random));
    break;
  case FieldDescriptor::CPPTYPE_UINT32: {
    auto x = static_cast<uint32_t>(number(random));
    many ? to.AddUInt32(&out, &field, x) : to.SetUInt32(&out, &field, x);
    break;
  }
  case FieldDescriptor::CPPTYPE_UINT64: {
    auto x = number(random);
    many ? to.AddUInt64(&out, &field, x) : to.SetUInt64(&out, &field, x);
    break;
  }
  case FieldDescriptor::CPPTYPE_INT64:
    to.SetInt64(&out, &field, static_cast<int64_t>(number(random)));
    break;
  case FieldDescriptor::CPPTYPE_DOUBLE:
    to.SetDouble(&out, &field, std::ldexp(double(random()), -60));
    break;
  case FieldDescriptor::CPPTYPE_BOOL:
    to.SetBool(&out, &field, random() % 2 == 0);
    break;
  default:
    FAIL("no random " << field.full_name());
  }
}

/// Any fields, some several times; of a `oneof` the last one counts.
void fill(google::protobuf::Message& out, random_bits& random) {
  const auto* type = out.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const auto& field = *type->field(i);
    auto times = field.is_repeated() ? random() % 4 : random() % 2;
    for (uint64_t k = 0; k < times; ++k)
      if (field.name() != "crc32c")
        set(out, field, random);
  }
}

proto::LogEvent first_event() {
  proto::LogEvent out;
  out.mutable_begin()->set_format_version(event_log_format);
  out.mutable_begin()->set_run_id("run");
  return out;
}

/// An event log of events that all have a decision.
std::vector<proto::LogEvent> write_event_log(const std::filesystem::path& path,
                                             uint64_t seed, int events) {
  random_bits random{seed};
  event_log_file event_log{path};
  std::vector<proto::LogEvent> out{first_event()};
  event_log.write(out.back());
  for (int i = 1; i < events; ++i) {
    auto& next = out.emplace_back();
    fill(next, random);
    event_log.write(next);
  }
  return out;
}

/// Reads to the end; gives the number of events.
uint64_t read_all(const std::filesystem::path& path, uint64_t* cut = nullptr) {
  event_log_reader event_log{path};
  proto::LogEvent event;
  while (event_log.next(event)) {
  }
  if (cut != nullptr)
    *cut = event_log.cut();
  return event_log.events();
}

/// Where each event ends.
std::vector<size_t> ends_of(const std::filesystem::path& folder, uint64_t seed,
                            int events) {
  std::vector<size_t> out;
  for (int n = 1; n <= events; ++n) {
    auto path = folder / ("part-" + std::to_string(n));
    write_event_log(path, seed, n);
    out.push_back(slurp(path).size());
  }
  return out;
}

} // namespace

TEST_CASE("an event log reads back as it was written") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    temporary_folder folder;
    auto path = folder / "tape-1.pb";
    auto written = write_event_log(path, seed, 20);
    event_log_reader event_log{path};
    REQUIRE(MessageDifferencer::Equals(event_log.begin(), written[0].begin()));
    proto::LogEvent event;
    for (size_t i = 1; i < written.size(); ++i) {
      REQUIRE(event_log.next(event));
      REQUIRE(event.number() == i + 1);
      REQUIRE(event.crc32c() != 0);
      event.clear_crc32c();
      REQUIRE(event.SerializeAsString() == written[i].SerializeAsString());
    }
    REQUIRE_FALSE(event_log.next(event));
    REQUIRE(event_log.cut() == 0);
  }
}

TEST_CASE("a last event that is torn is cut, wherever it is torn") {
  temporary_folder folder;
  auto ends = ends_of(folder.path(), 3, 6);
  auto path = folder / "part-6";
  auto whole = slurp(path);
  for (auto size = ends[0]; size <= whole.size(); ++size) {
    spill(path, whole.substr(0, size));
    auto events = static_cast<uint64_t>(
      std::upper_bound(ends.begin(), ends.end(), size) - ends.begin());
    uint64_t cut = 0;
    INFO("size " << size);
    REQUIRE(read_all(path, &cut) == events);
    REQUIRE(cut == size - ends[events - 1]);
  }
}

TEST_CASE("any other damage is told with the event and its place") {
  temporary_folder folder;
  constexpr int events = 6;
  auto ends = ends_of(folder.path(), 5, events);
  auto path = folder / "part-6";
  auto whole = slurp(path);
  for (size_t at = ends[0]; at < whole.size(); ++at)
    for (auto bit : {0, 3, 7}) {
      auto damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      spill(path, damaged);
      auto event = static_cast<size_t>(
        std::upper_bound(ends.begin(), ends.end(), at) - ends.begin());
      INFO("byte " << at << ", bit " << bit);
      std::string line;
      uint64_t found = 0;
      try {
        found = read_all(path);
      } catch (const run_error& err) {
        line = err.what();
      }
      // A length of the last one that is too great: as if its end were missing.
      if (event == events - 1 && at < ends[event - 1] + 2 && line.empty()) {
        REQUIRE(found == events - 1);
        continue;
      }
      REQUIRE(line.find(path.string() + ": event " + std::to_string(event + 1) +
                        ", at byte " + std::to_string(ends[event - 1]) +
                        ", is damaged: ") == 0);
    }
}

TEST_CASE("an event that is missing is noticed") {
  temporary_folder folder;
  auto ends = ends_of(folder.path(), 7, 4);
  auto path = folder / "part-4";
  auto whole = slurp(path);
  spill(path, whole.substr(0, ends[1]) + whole.substr(ends[2]));
  CHECK(error_line<run_error>([&] { read_all(path); }) ==
        path.string() + ": event 3, at byte " + std::to_string(ends[1]) +
          ", is damaged: it is numbered 4");
}

TEST_CASE("what is no event log is refused") {
  temporary_folder folder;
  auto path = folder / "x";
  auto complaint = [&] {
    return error_line<run_error>([&] { event_log_reader{path}; });
  };
  CHECK(complaint().find("cannot read " + path.string()) == 0);
  spill(path, "");
  CHECK(complaint() ==
        path.string() + ": is empty: the run was ended before it began");
  auto no_event_log =
    path.string() + ": is no event log (tape-<life>.pb of a run directory)";
  for (const auto& text :
       {std::string{"[cluster]\nworkers = 4\nlong enough to be an event\n"},
        std::string(100, '\0'),
        std::string("\x05"
                    "abc")}) {
    spill(path, text);
    CHECK(complaint() == no_event_log);
  }
  std::filesystem::remove(path);
  auto first = first_event();
  first.mutable_begin()->set_format_version(7);
  first.mutable_begin()->set_troupe_version("9.9");
  event_log_file{path}.write(first);
  CHECK(complaint() ==
        path.string() + ": an event log of format 7, made by trainer_node 9.9; "
                        "this one reads format 1");
}

TEST_CASE("an event log that is there is never written over") {
  temporary_folder folder;
  auto path = folder / event_log_name(2);
  CHECK(path.filename() == "tape-2.pb");
  CHECK(set_event_log_aside(path).empty());
  write_event_log(path, 1, 3);
  CHECK(error_line<run_error>([&] {
          event_log_file{path};
        }).find("cannot make") == 0);
  CHECK(set_event_log_aside(path).filename() == "abandoned-tape-2.pb");
  write_event_log(path, 2, 2);
  CHECK(set_event_log_aside(path).filename() == "abandoned-2-tape-2.pb");
  CHECK(read_all(folder / "abandoned-tape-2.pb") == 3);
  CHECK(read_all(folder / "abandoned-2-tape-2.pb") == 2);
}

TEST_CASE("an event log of another format is refused in one line, whatever its "
          "release is called") {
  temporary_folder folder;
  auto path = folder / "tape-1.pb";
  proto::LogEvent event;
  event.mutable_begin()->set_format_version(event_log_format + 1);
  event.mutable_begin()->set_troupe_version("9\n\x1b[2J");
  event_log_file{path}.write(event);
  auto line = error_line<run_error>([&] { event_log_reader{path}; });
  CHECK(line == path.string() +
                  ": an event log of format 2, made by trainer_node "
                  "9\\x0a\\x1b[2J; this one reads format 1");
}
