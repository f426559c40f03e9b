// Shards that know the protocol and break it: whatever they send of their
// state, they write to their own range of it only.

#include "tests/support/hostile.hpp"
#include "tests/support/server_fixture.hpp"
#include "tests/support/slot_drafts.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

void attack_the_registrar(uint64_t seed) {
  dice random{seed};
  server_fixture on;
  on.remote_shards = true;
  on.settings.training.network = "mnist_net";
  on.settings.cluster.shards = 3;
  on.open(1);
  auto total = models::layout_of(on.settings.training, 10).count();
  auto what = std::make_shared<shard_fetch>();
  what->transfer = transfer_id{2};
  slot_draft state{static_cast<int64_t>(total)};
  auto weights = at::zeros({static_cast<int64_t>(total)});
  if (one_in(random, 2)) {
    what->files = state.files;
    what->places = state.places;
  } else {
    what->weights = weights;
  }
  auto fetched =
    on.actors.ask<>(on.registrar, state_atom_v, shard_fetch_ptr{what});
  on.actors.run();
  uint64_t next[] = {0, 0};
  for (auto left = 1 + random() % 24; left > 0; --left) {
    auto from = random() % 2;
    shard_id rank{static_cast<uint32_t>(from + 1)};
    auto bytes = 4 * on.part_sizes[from] * what->numbers();
    auto piece = any_chunk(random, one_in(random, 8) ? 1 : 2, bytes);
    if (!one_in(random, 6)) {
      auto size = std::min(bytes - next[from], 1 + random() % bytes);
      piece = make_chunk(2, next[from], size);
      next[from] += size;
    }
    if (one_in(random, 10))
      rank = shard_id{static_cast<uint32_t>(odd_number(random, 2))};
    if (one_in(random, 8))
      caf::send_as(on.remote[from], on.registrar, write_atom_v, rank,
                   transfer_id{1 + random() % 2}, std::string{});
    else
      caf::send_as(on.remote[from], on.registrar, chunk_atom_v, rank, piece);
    on.actors.run();
  }
  // What is the lead's own, behind theirs, nobody has written to.
  auto theirs = static_cast<int64_t>(on.part_sizes[0] + on.part_sizes[1]);
  for (const auto& flat : {weights, state.weights(), state.numbers()})
    CHECK((flat.slice(0, theirs) == 0).all().item<bool>());
}

} // namespace

TEST_CASE("pieces of a shard's state that break the protocol stay in their "
          "place") {
  repeat(40, [](uint64_t seed) { attack_the_registrar(seed); });
}
