#include "config/text/value.hpp"
#include "config/values/augmentation.hpp"
#include "config/values/tar_shards.hpp"
#include "tests/support/error_line.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::config;
using troupe::test::error_line;

namespace {

std::string augmentation_complaint(const std::string& text) {
  return error_line<bad_value>([&] { parse_augmentation(text); });
}

std::string range_complaint(const std::string& text) {
  return error_line<bad_value>([&] { parse_tar_shards(text); });
}

using names = std::vector<std::string>;

} // namespace

TEST_CASE("steps are read with their parameters") {
  auto found = parse_augmentation("crop(padding=2) + flip + jitter(hue=0.1)");
  REQUIRE(found.crop);
  CHECK(found.crop->padding == 2);
  CHECK(found.flip->p == 0.5);
  CHECK(found.jitter->hue == 0.1);
  CHECK_FALSE(found.resized_crop);
  CHECK_FALSE(found.automatic);
  CHECK(parse_augmentation("crop").crop->padding == 4);
  CHECK(parse_augmentation("auto").automatic);
  CHECK_FALSE(parse_augmentation("none").automatic);
  CHECK(parse_augmentation("resized-crop(min-scale=2e-1)")
          .resized_crop->min_scale == 0.2);
}

TEST_CASE("wrong steps are refused in plain words") {
  CHECK(augmentation_complaint("flop") ==
        "has the step 'flop'; there are auto, none, or crop, resized-crop, "
        "flip and jitter with + between them");
  CHECK(augmentation_complaint("flip+flip") == "has flip twice");
  CHECK(augmentation_complaint("crop+resized-crop") ==
        "has both crop and resized-crop: give one");
  CHECK(augmentation_complaint("flip(q=1)") ==
        "flip has no parameter 'q', it has p");
  CHECK(augmentation_complaint("flip(p=2)") == "p of flip must be from 0 to 1");
  CHECK(augmentation_complaint("crop(padding=1.5)") ==
        "padding of crop must be a whole number");
  CHECK(augmentation_complaint("resized-crop(min-scale=0.5,max-scale=0.2)") ==
        "has a resized-crop whose least is above its most");
  CHECK(augmentation_complaint("flip+").starts_with("has the step ''"));
}

TEST_CASE("a range names its shards") {
  CHECK(expand_range("a-{08..11}.tar") ==
        names{"a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"});
  CHECK(expand_range("a.tar") == names{"a.tar"});
  auto found = parse_tar_shards("tar(train=a-{000..146}.tar,val=b.tar)");
  CHECK(found.train == "a-{000..146}.tar");
  CHECK(found.validation == "b.tar");
  CHECK(parse_tar_shards("tar").train.empty());
}

TEST_CASE("wrong shards are refused in plain words") {
  CHECK(range_complaint("tar(train=a)") ==
        "must name both: tar(train=FILES,val=FILES)");
  CHECK(range_complaint("tar(train=a,train=b,val=c)") ==
        "train of tar is given twice");
  CHECK(range_complaint("tar(train=a{1..,val=b)") ==
        "must have one range, such as {000..146}");
  CHECK(range_complaint("tar(train=a{5..3},val=b)") ==
        "must have a range that goes up, of at most a million");
  // A million names as long as these would fill the memory.
  CHECK(range_complaint("tar(train={00000000001..1000000},val=b)") ==
        "must have a range of numbers of at most 10 digits");
  CHECK(range_complaint("tar(train=" + std::string(5000, 'a') + ",val=b)") ==
        "must not be longer than a path");
  CHECK(range_complaint("tar(test=a,val=b)") ==
        "tar has no parameter 'test', it has train, val");
}
