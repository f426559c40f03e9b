#include "actors/log_files/crc32c.hpp"
#include "actors/log_files/tensorboard_log.hpp"
#include "config/text/failure.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <string>

using namespace troupe;
using namespace troupe::recording;
using testing::slurp;
using testing::temporary_folder;

namespace {

uint32_t crc_of(std::string_view text) {
  return crc32c(std::as_bytes(std::span{text.data(), text.size()}));
}

std::string hex(const std::string& bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string result;
  for (auto x : bytes) {
    result += digits[static_cast<unsigned char>(x) >> 4];
    result += digits[x & 15];
  }
  return result;
}

} // namespace

TEST_CASE("crc32c has the values of RFC 3720") {
  CHECK(crc_of("") == 0);
  CHECK(crc_of("123456789") == 0xe3069283u);
  CHECK(crc_of(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(crc_of(std::string(32, '\xff')) == 0x62a8ab43u);
}

TEST_CASE("event files have the bytes that TensorBoard's own writer makes") {
  temporary_folder folder;
  tensorboard_log log{folder.path(), 1000, 40};
  log.evaluation(50, 2.5, {{"loss", 0.25}, {"accuracy", 0.5}});
  // Made by tensorboard 2.21.0.
  CHECK(hex(slurp(log.path())) ==
        "1800000000000000a37f4b22"
        "090000000000408f401a0d627261696e2e4576656e743a32"
        "73ae6b56"
        "0f000000000000006d532b09"
        "090000000000408f4010283a020801"
        "a1bb33b8"
        "3500000000000000d6c55de6"
        "090000000000548f4010322a280a100a096576616c2f6c6f7373150000803e0a140a0d"
        "6576616c2f6163637572616379150000003f"
        "a7ef855e");
}

TEST_CASE("figures that are absent or not finite are left out") {
  temporary_folder folder;
  tensorboard_log log{folder.path(), 0};
  auto size = slurp(log.path()).size();
  log.update(1, 0, {});
  log.evaluation(1, 0, {{"loss", std::nan("")}, {"f1", INFINITY}});
  CHECK(slurp(log.path()).size() == size);
  log.update(1, 0, {.loss = 1.5, .staleness_mean = std::nan("")});
  auto text = slurp(log.path());
  CHECK(text.find("train/loss") != std::string::npos);
  CHECK(text.find("train/staleness_mean") == std::string::npos);
  log.update(2, 1, {.samples_per_second = 10, .staleness_mean = 2});
  text = slurp(log.path());
  CHECK(text.find("train/staleness_mean") != std::string::npos);
  CHECK(text.find("train/samples_per_second") != std::string::npos);
}

TEST_CASE("records that are gathered are the same ones, later") {
  temporary_folder folder;
  tensorboard_log at_once{folder.path(), 0};
  tensorboard_log gathered{folder.path(), 0, std::nullopt, 1 << 16};
  for (auto* log : {&at_once, &gathered}) {
    log->update(1, 0, {.loss = 1.5});
    log->update(2, 1, {.loss = 1.25});
  }
  CHECK(slurp(gathered.path()).empty());
  gathered.flush();
  CHECK(slurp(gathered.path()) == slurp(at_once.path()));
}

TEST_CASE("each start of a run has a file of its own, later ones behind") {
  temporary_folder folder;
  tensorboard_log one{folder.path(), 0};
  tensorboard_log two{folder.path(), 0, 10};
  tensorboard_log three{folder.path(), 1763717000.25, 20};
  CHECK(one.path().filename() == "events.out.tfevents.0000000000.0000.troupe");
  CHECK(two.path().filename() == "events.out.tfevents.0000000000.0001.troupe");
  CHECK(three.path().filename() ==
        "events.out.tfevents.1763717000.0000.troupe");
  CHECK_THROWS_AS((tensorboard_log{folder / "absent", 0}), run_error);
}
