#include "messages/error.hpp"
#include "messages/interfaces.hpp"
#include "tests/support/wire.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>
#include <string>

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr auto count = static_cast<uint8_t>(errc::count_);

/// An error as only a peer can make it: any code of any type.
caf::error foreign(uint8_t code, caf::type_id_t kind, caf::message context) {
  auto bytes = to_wire(caf::error{errc::failed, std::move(context)});
  bytes.at(1) = caf::byte{code};
  bytes.at(2) = static_cast<caf::byte>(kind >> 8);
  bytes.at(3) = static_cast<caf::byte>(kind & 0xff);
  return from_wire<caf::error>(bytes).value();
}

} // namespace

TEST_CASE("every error code comes back from its name, number and bytes") {
  std::set<std::string> names;
  for (uint8_t number = 0; number < count; ++number) {
    auto code = static_cast<errc>(number);
    auto name = to_string(code);
    INFO(name);
    CHECK(names.insert(name).second);
    errc found{};
    CHECK(from_string(name, found));
    CHECK(found == code);
    CHECK(from_integer(number, found));
    CHECK(found == code);
    CHECK(to_wire(code) == caf::byte_buffer{static_cast<caf::byte>(number)});
    CHECK(from_wire<errc>(to_wire(code)) == code);
  }
}

TEST_CASE("error codes have their numbers for ever") {
  CHECK(static_cast<int>(errc::none) == 0);
  CHECK(static_cast<int>(errc::protocol_mismatch) == 1);
  CHECK(static_cast<int>(errc::settings_conflict) == 2);
  CHECK(static_cast<int>(errc::unknown_member) == 3);
  CHECK(static_cast<int>(errc::stale_incarnation) == 4);
  CHECK(static_cast<int>(errc::wrong_size) == 5);
  CHECK(static_cast<int>(errc::not_finite) == 6);
  CHECK(static_cast<int>(errc::duplicate) == 7);
  CHECK(static_cast<int>(errc::rank_taken) == 8);
  CHECK(static_cast<int>(errc::cancelled) == 9);
  CHECK(static_cast<int>(errc::peer_lost) == 10);
  CHECK(static_cast<int>(errc::unreachable) == 11);
  CHECK(static_cast<int>(errc::shutting_down) == 12);
  CHECK(static_cast<int>(errc::timed_out) == 13);
  CHECK(static_cast<int>(errc::bad_data) == 14);
  CHECK(static_cast<int>(errc::damaged_checkpoint) == 15);
  CHECK(static_cast<int>(errc::disk) == 16);
  CHECK(static_cast<int>(errc::protocol_violation) == 17);
  CHECK(static_cast<int>(errc::expelled) == 18);
  CHECK(static_cast<int>(errc::failed) == 19);
  CHECK(static_cast<int>(errc::outlier) == 20);
  CHECK(static_cast<int>(errc::cluster_full) == 21);
  CHECK(count == 22);
}

TEST_CASE("a number or a name that is no error code is refused") {
  errc code = errc::disk;
  for (int number = count; number < 256; ++number) {
    CHECK_FALSE(from_integer(static_cast<uint8_t>(number), code));
    caf::byte_buffer bytes{static_cast<caf::byte>(number)};
    CHECK_FALSE(from_wire<errc>(bytes).has_value());
  }
  CHECK_FALSE(from_string("", code));
  CHECK_FALSE(from_string("Disk", code));
  CHECK_FALSE(from_string("count_", code));
  CHECK(code == errc::disk);
  CHECK(to_string(static_cast<errc>(200)) == "invalid");
}

TEST_CASE("an error carries its line over the wire") {
  init_messages();
  auto err =
    caf::make_error(errc::wrong_size, std::string{"worker 3: too big"});
  auto copy = from_wire<caf::error>(to_wire(err));
  REQUIRE(copy);
  CHECK(*copy == err);
  CHECK(*copy == errc::wrong_size);
  CHECK(text_of(*copy) == "worker 3: too big");
}

TEST_CASE("an error without a line is shown by its name") {
  init_messages();
  CHECK(text_of(caf::make_error(errc::timed_out)) == "timed_out");
}

TEST_CASE("no user sees a name of CAF's") {
  init_messages();
  CHECK(text_of(caf::make_error(caf::sec::request_timeout)) ==
        "no answer in time");
  CHECK(text_of(caf::make_error(caf::exit_reason::kill)) == "it was killed");
  CHECK(text_of(caf::make_error(caf::exit_reason::remote_link_unreachable)) ==
        "the connection is lost");
  CHECK(text_of(caf::make_error(caf::sec::type_clash)) ==
        "an error inside the program: type_clash");
  for (int code = 1; code < 256; ++code)
    for (auto kind :
         {caf::type_id_v<caf::sec>, caf::type_id_v<caf::exit_reason>}) {
      auto text = text_of(foreign(static_cast<uint8_t>(code), kind, {}));
      INFO(text);
      CHECK(text.find("::") == std::string::npos);
    }
}

TEST_CASE("whatever error a peer sends is shown in one line") {
  init_messages();
  auto text = [](uint8_t code, caf::type_id_t kind, caf::message context) {
    return text_of(foreign(code, kind, std::move(context)));
  };
  auto with = [](const std::string& line) {
    return caf::make_message(line);
  };
  auto known = caf::type_id_v<errc>;
  CHECK(text(5, known, with("two\nlines")) == "two\\x0alines");
  CHECK(text(5, known, with(std::string(1 << 20, 'x'))).size() < 1000);
  // A code is no value of the type that the category names.
  auto unknown = "an error of an unknown kind";
  CHECK(text(5, caf::type_id_v<std::string>, {}) == unknown);
  CHECK(text(5, caf::type_id_v<part_report>, {}) == unknown);
  auto inner = foreign(5, caf::type_id_v<std::string>, {});
  CHECK(text(5, known, caf::make_message(inner)) == "wrong_size");
  CHECK(text(200, known, {}) == "invalid");
  CHECK_FALSE(text(200, caf::type_id_v<caf::sec>, {}).empty());
  CHECK_FALSE(text(200, caf::type_id_v<caf::exit_reason>, {}).empty());
}
