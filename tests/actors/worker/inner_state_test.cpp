#include "actors/worker/inner_state.hpp"
#include "tests/support/temporary_folder.hpp"

#include <ATen/ops/full.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

constexpr worker_id who{3};

push_id pushed(uint64_t number, uint32_t life = 1) {
  return {who, life_number{life}, sequence{number}};
}

/// A state after so many steps, with as many everywhere in its only slot.
inner_state::numbers state_after(uint64_t steps) {
  auto out = std::make_shared<models::inner_numbers>();
  out->steps = steps;
  out->slots.push_back(
    {"momentum_buffer", at::full({5}, static_cast<double>(steps), at::kFloat)});
  return out;
}

struct home {
  inner_state make() { return inner_state{{folder / "run", 2, "a"}}; }

  /// What a worker begins with that resumes at this step, in another life of
  /// the server.
  inner_state::numbers found(uint64_t step, uint32_t server = 2) {
    auto next = make();
    next.begin(life_number{server}, version{step}, who);
    return next.go_back_to({});
  }

  testing::temporary_folder folder;
};

} // namespace

TEST_CASE("the state goes back to the last gradient that was taken",
          "[inner state]") {
  home at;
  auto uut = at.make();
  uut.begin(life_number{1}, version{0}, who);
  CHECK(uut.go_back_to({}) == nullptr);
  auto first = state_after(4);
  auto second = state_after(8);
  uut.keep(pushed(1), first);
  CHECK(uut.go_back_to(pushed(1)) == first);
  uut.keep(pushed(2), second);
  CHECK(uut.go_back_to(pushed(1)) == first);
  CHECK(uut.go_back_to(pushed(1)) == first);
  uut.keep(pushed(2), second);
  CHECK(uut.go_back_to(pushed(2)) == second);
  CHECK(uut.go_back_to({}) == nullptr);
}

TEST_CASE("memory of states is used again when nobody needs it",
          "[inner state]") {
  home at;
  auto uut = at.make();
  auto held = state_after(1);
  uut.keep(pushed(1), held);
  uut.keep(pushed(2), state_after(2));
  uut.keep(pushed(3), state_after(3)); // The first one is held here.
  CHECK(uut.take_spare() == nullptr);
  uut.keep(pushed(4), state_after(4));
  auto spare = uut.take_spare();
  REQUIRE(spare);
  CHECK(spare->steps == 2);
}

TEST_CASE("a checkpoint has the state after the gradients that it contains",
          "[inner state]") {
  home at;
  auto uut = at.make();
  uut.begin(life_number{1}, version{0}, who);
  uut.write(version{0}, pushed(0)); // The optimiser has made no step.
  CHECK(at.found(0) == nullptr);
  uut.keep(pushed(1), state_after(4));
  uut.keep(pushed(2), state_after(8));
  uut.write(version{10}, pushed(1));
  auto found = at.found(10);
  REQUIRE(found);
  CHECK(found->steps == 4);
  REQUIRE(found->slots.size() == 1);
  CHECK(found->slots[0].name == "momentum_buffer");
  CHECK(found->slots[0].flat.eq(4).all().item<bool>());
}

TEST_CASE("a state that is not known any more is not saved", "[inner state]") {
  home at;
  auto first = at.make();
  first.begin(life_number{1}, version{0}, who);
  first.keep(pushed(1), state_after(4));
  first.write(version{10}, pushed(1));
  auto next = at.make();
  next.begin(life_number{2}, version{10}, who);
  for (uint64_t number : {1, 2, 3})
    next.keep(pushed(number, 2), state_after(4 + 4 * number));
  next.write(version{20}, pushed(1, 2));
  CHECK(at.found(20, 3) == nullptr);
  next.write(version{20}, pushed(2, 2));
  REQUIRE(at.found(20, 3));
  CHECK(at.found(20, 3)->steps == 12);
}

TEST_CASE("a life that has pushed nothing goes on from the one before",
          "[inner state]") {
  home at;
  auto uut = at.make();
  uut.begin(life_number{1}, version{0}, who);
  uut.keep(pushed(7), state_after(28));
  uut.write(version{20}, pushed(0, 2)); // The connection was lost.
  auto found = at.found(20);
  REQUIRE(found);
  CHECK(found->steps == 28);
}

TEST_CASE("what a worker leaves is taken over once, in the same life",
          "[inner state]") {
  home at;
  auto uut = at.make();
  uut.begin(life_number{1}, version{0}, who);
  uut.keep(pushed(1), state_after(4));
  uut.hand_over(pushed(1));
  CHECK(at.found(3, 1)->steps == 4);
  CHECK(at.found(3, 1) == nullptr);
}
