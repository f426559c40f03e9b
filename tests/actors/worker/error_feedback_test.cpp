#include "actors/worker/error_feedback.hpp"
#include "config/text/failure.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <fstream>

using namespace troupe;

namespace {

namespace fs = std::filesystem;

constexpr worker_id who{3};
constexpr life_number first_server{1};

push_id gradient(uint64_t number, uint32_t life = 1) {
  return {who, life_number{life}, sequence{number}};
}

/// Leaves `x` everywhere; returns what was there, or zero for none.
float leave(error_feedback& in, const push_id& id, float x, size_t range = 0) {
  float before = 0;
  in.pack(range, id, [&](std::span<const float> had, std::span<float> lost) {
    before = had.empty() ? 0 : had.front();
    std::ranges::fill(lost, x);
    return true;
  });
  return before;
}

/// Leaves 1 with the first gradient, and keeps that for these steps.
void write_first(error_feedback& in, std::initializer_list<uint64_t> steps) {
  leave(in, gradient(1), 1);
  for (auto step : steps)
    in.write(version{step}, gradient(1));
}

struct home {
  troupe::testing::temporary_folder folder;

  error_feedback make(const std::vector<uint64_t>& counts = {10},
                      const char* run = "a") {
    return error_feedback{counts, {folder / "run", 2, run}};
  }

  fs::path file(uint64_t step) {
    auto digits = std::to_string(step);
    return folder / "run" / "residuals" /
           ("step-" + std::string(8 - digits.size(), '0') + digits) /
           "worker-3.safetensors";
  }

  /// What a worker that resumes at this step begins with.
  float found(uint64_t step, const std::vector<uint64_t>& counts = {10},
              const char* run = "a") {
    error_feedback next{counts, {folder / "run", 2, run}};
    next.begin(life_number{2}, version{step}, who);
    return leave(next, gradient(1, 2), 0);
  }
};

} // namespace

TEST_CASE("a gradient gets what the one before it left", "[error feedback]") {
  home at;
  auto all = at.make();
  CHECK(leave(all, gradient(1), 5) == 0);
  CHECK(leave(all, gradient(2), 7) == 5);
  CHECK(leave(all, gradient(3), 0) == 7);
}

TEST_CASE("a gradient that cannot be used leaves nothing", "[error feedback]") {
  home at;
  auto all = at.make();
  leave(all, gradient(1), 5);
  all.pack(0, gradient(2), [](std::span<const float>, std::span<float> lost) {
    std::ranges::fill(lost, 100);
    return false;
  });
  CHECK(leave(all, gradient(3), 6) == 5);
}

TEST_CASE("error feedback is kept as it was after a settled gradient",
          "[error feedback]") {
  home at;
  auto all = at.make();
  all.write(version{5}, gradient(0));
  CHECK_FALSE(fs::exists(at.file(5))); // There was no error feedback yet.
  leave(all, gradient(1), 1);
  all.write(version{10}, gradient(1));
  CHECK(at.found(10) == 1);
  leave(all, gradient(2), 2); // This gradient is on its way.
  all.write(version{11}, gradient(1));
  CHECK(at.found(11) == 1);
  leave(all, gradient(3), 3);
  all.write(version{12}, gradient(1)); // It is no longer known.
  CHECK_FALSE(fs::exists(at.file(12)));
  leave(all, gradient(1, 2), 4); // On its way, in another life.
  all.write(version{13}, gradient(0, 2));
  CHECK(at.found(13) == 3);
}

// Of three fragments each gradient is of one.
TEST_CASE("what fragments leave is kept until their next turn",
          "[error feedback]") {
  home at;
  const std::vector<uint64_t> counts{4, 5, 6};
  auto all = at.make(counts);
  auto found = [&](uint64_t step) {
    auto next = at.make(counts);
    next.begin(life_number{2}, version{step}, who);
    std::vector<float> out;
    for (size_t k = 0; k < 3; ++k)
      out.push_back(leave(next, gradient(k + 1, 2), 0, k));
    return out;
  };
  for (uint64_t k = 0; k < 5; ++k) // 1 to 5; the last one is on its way.
    CHECK(leave(all, gradient(k + 1), static_cast<float>(k + 1), k % 3) ==
          (k < 3 ? 0 : static_cast<float>(k - 2)));
  all.write(version{10}, gradient(4));
  CHECK((found(10) == std::vector<float>{4, 2, 3}));
  all.write(version{11}, gradient(5));
  CHECK((found(11) == std::vector<float>{4, 5, 3}));
  all.write(version{12}, gradient(2)); // Before fragment 2 had its turn.
  CHECK((found(12) == std::vector<float>{1, 2, 0}));
  leave(all, gradient(7), 7, 0);
  all.write(version{13}, gradient(1)); // It is no longer known.
  CHECK_FALSE(fs::exists(at.file(13)));
}

TEST_CASE("what a gradient that cannot be used has overwritten is not kept",
          "[error feedback]") {
  home at;
  auto all = at.make();
  leave(all, gradient(1), 1);
  leave(all, gradient(2), 2);
  all.pack(0, gradient(3), [](std::span<const float>, std::span<float> lost) {
    std::ranges::fill(lost, 100);
    return false;
  });
  all.write(version{10}, gradient(1));
  CHECK_FALSE(fs::exists(at.file(10)));
  all.write(version{11}, gradient(2));
  CHECK(at.found(11) == 2);
}

TEST_CASE("only so many steps are kept", "[error feedback]") {
  home at;
  auto all = at.make();
  write_first(all, {10, 20, 30});
  CHECK_FALSE(fs::exists(at.file(10).parent_path()));
  CHECK(at.found(30) == 1);
  CHECK(at.found(20) == 1);
}

// -- a run that was rolled back -----------------------------------------------

TEST_CASE("files of later versions go when a new life begins",
          "[error feedback]") {
  home at;
  auto all = at.make();
  write_first(all, {10, 20});
  all.begin(life_number{2}, version{10}, who);
  CHECK(fs::exists(at.file(10)));
  CHECK_FALSE(fs::exists(at.file(20)));
  leave(all, gradient(1, 2), 2);
  all.write(version{15}, gradient(1, 2));
  leave(all, gradient(2, 2), 3);
  all.write(version{20}, gradient(2, 2)); // Again, with another error feedback.
  CHECK_FALSE(fs::exists(at.file(10)));   // Two steps are kept: 15 and 20.
  CHECK(fs::exists(at.file(15)));
  CHECK(at.found(20) == 3);
}

TEST_CASE("a worker that was started anew sorts out what was there before it",
          "[error feedback]") {
  home at;
  auto before = at.make();
  write_first(before, {10, 20});
  auto after = at.make();
  after.begin(life_number{2}, version{10}, who);
  CHECK_FALSE(fs::exists(at.file(20)));
  leave(after, gradient(1, 2), 2);
  for (uint64_t step : {11, 12})
    after.write(version{step}, gradient(1, 2));
  CHECK_FALSE(fs::exists(at.file(10)));
  CHECK(fs::exists(at.file(11)));
  CHECK(at.found(12) == 2);
}

TEST_CASE("a worker that comes late to a life trusts no older file",
          "[error feedback]") {
  home at;
  auto all = at.make();
  all.begin(life_number{1}, version{0}, who);
  leave(all, gradient(1), 1);
  for (uint64_t step : {10, 20})
    all.write(version{step}, gradient(1));
  // The server was set back to 10; the worker joins when it is at 25.
  auto late = at.make();
  late.begin(life_number{2}, version{25}, who);
  CHECK_FALSE(fs::exists(at.file(10)));
  CHECK_FALSE(fs::exists(at.file(20)));
  leave(late, gradient(1, 2), 2);
  late.write(version{30}, gradient(1, 2));
  // The worker's process is started anew in the same life, in which the file
  // that it wrote is good.
  auto again = at.make();
  again.begin(life_number{2}, version{33}, who);
  CHECK(fs::exists(at.file(30)));
}

TEST_CASE("what a worker has left is taken over once, in the same life",
          "[error feedback]") {
  home at;
  auto leaving = at.make();
  leaving.begin(life_number{2}, version{0}, who);
  leave(leaving, gradient(1), 1);
  leave(leaving, gradient(2), 2);
  leaving.hand_over(gradient(2));
  CHECK(at.found(0) == 2);
  CHECK(at.found(0) == 0);
  leaving.hand_over(gradient(1)); // The second had no answer.
  CHECK(at.found(0) == 1);
  leaving.hand_over(gradient(2));
  auto later = at.make();
  later.begin(life_number{3}, version{0}, who);
  CHECK(leave(later, gradient(1), 9) == 0);
  CHECK(at.found(0) == 0);
}

TEST_CASE("files of others and of other runs stay", "[error feedback]") {
  home at;
  auto other = [&](uint64_t step) {
    return at.file(step).parent_path() / "worker-4.safetensors";
  };
  auto foreign = at.make({10}, "b");
  write_first(foreign, {40});
  auto neighbour = at.make();
  push_id theirs{worker_id{4}, life_number{1}, sequence{1}};
  leave(neighbour, theirs, 1);
  for (uint64_t step : {10, 20})
    neighbour.write(version{step}, theirs);
  auto all = at.make();
  all.begin(life_number{2}, version{10}, who);
  leave(all, gradient(1, 2), 2);
  for (uint64_t step : {11, 12, 13})
    all.write(version{step}, gradient(1, 2));
  CHECK(fs::exists(at.file(40)));
  CHECK(fs::exists(other(10)));
  CHECK(fs::exists(other(20)));
  CHECK_FALSE(fs::exists(at.file(11)));
  CHECK(fs::exists(at.file(12)));
  // With another rank it sorts out that rank's files; those of its own earlier
  // rank stay.
  all.begin(life_number{3}, version{13}, worker_id{4});
  CHECK_FALSE(fs::exists(other(20)));
  CHECK(fs::exists(at.file(13)));
}

TEST_CASE(
  "a resumed run forgets the error feedback of all workers after its step",
  "[error feedback]") {
  home at;
  auto all = at.make();
  write_first(all, {10, 20});
  auto foreign = at.make({10}, "b");
  write_first(foreign, {40});
  forget_carried({at.folder / "run", 2, "a"}, version{10});
  CHECK(fs::exists(at.file(10)));
  CHECK_FALSE(fs::exists(at.file(20)));
  CHECK(fs::exists(at.file(40)));
  forget_carried({at.folder / "nothing", 2, "a"}, version{10});
}

TEST_CASE(
  "error feedback goes on with other shards, not in another run or network",
  "[error feedback]") {
  home at;
  auto all = at.make({6, 4});
  leave(all, gradient(1), 1, 0);
  leave(all, gradient(1), 1, 1);
  all.write(version{10}, gradient(1));
  CHECK(at.found(10) == 1);
  CHECK(at.found(10, {3, 3, 4}) == 1);
  CHECK(at.found(10, {10}, "b") == 0);
  CHECK(at.found(10, {11}) == 0);
  CHECK(at.found(11) == 0);
}

TEST_CASE("a damaged error feedback counts as none", "[error feedback]") {
  home at;
  auto all = at.make();
  write_first(all, {10});
  fs::resize_file(at.file(10), 20);
  CHECK(at.found(10) == 0);
}

TEST_CASE("the same life of the server is begun once", "[error feedback]") {
  home at;
  auto all = at.make();
  write_first(all, {10});
  auto other = at.make();
  other.begin(first_server, version{10}, who);
  leave(other, gradient(1), 2);
  other.begin(first_server, version{10}, who); // It pulled again.
  CHECK(leave(other, gradient(2), 3) == 2);
}

TEST_CASE("another life of the server begins at zero without a file",
          "[error feedback]") {
  home at;
  auto all = at.make();
  all.begin(first_server, version{0}, who);
  leave(all, gradient(1), 1);
  all.begin(life_number{2}, version{10}, who);
  CHECK(leave(all, gradient(1, 2), 2) == 0);
}

TEST_CASE("error feedback that cannot be written says so", "[error feedback]") {
  home at;
  std::ofstream{at.folder / "run"} << "no folder";
  auto all = at.make();
  leave(all, gradient(1), 1);
  CHECK_THROWS_AS(all.write(version{10}, gradient(1)), run_error);
}
