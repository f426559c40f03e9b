// How a shard gives its state away: into files that it shares with the lead, or
// in chunks.

#include "actors/runtime/tensor_payload.hpp"
#include "actors/shards/remote_shard.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/payloads.hpp"
#include "tests/support/slot_drafts.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int64_t all_parameters = 18; ///< Parameters of a small network.
constexpr int64_t range_first =
  6; ///< Of the shard's, in both parts of the file.
constexpr transfer_id piece_wanted{7};

/// Keeps what a shard gives away.
struct registrar_notes {
  std::vector<std::byte> bytes; ///< Of all chunks.
  std::vector<std::string> written;
};

using registrar_stand_in = stand_in<registrar_notes, shard_registrar_actor>;

registrar_stand_in make_registrar_notes(actor_fixture& actors) {
  registrar_stand_in out;
  auto seen = out.seen;
  out.handle = actors.stand_in<shard_registrar_actor>([seen](auto*) {
    return shard_registrar_actor::behavior_type{
      [](register_atom, shard_id, const std::string&, uint16_t,
         const remote_shard_actor&) {},
      [](shards_atom) { return std::vector<config::address>{}; },
      [](begun_atom, shard_id) {},
      [seen](chunk_atom, shard_id, const chunk& piece) {
        auto bytes = piece.bytes();
        seen->bytes.insert(seen->bytes.end(), bytes.begin(), bytes.end());
      },
      [](refuse_atom, const std::string&) {},
      [seen](write_atom, shard_id, transfer_id, const std::string& trouble) {
        seen->written.push_back(trouble);
      },
      [](credit_atom, shard_id, transfer_id, uint64_t) {},
      [](state_atom, const shard_fetch_ptr&) {},
      [](leave_atom, shard_id) {},
      [](tick_atom) {},
      [](stop_atom, const run_end&) {},
    };
  });
  return out;
}

/// A shard that goes on from weights that are all 1, with slots that are all 2
/// and all 3.
struct one_shard {
  explicit one_shard(int64_t count = 6) : count(count) {
    remote_shard_parts parts;
    parts.rank = shard_id{1};
    parts.settings.optimizer = "adam";
    auto shape = [](int64_t numbers) {
      return payload_shape{element_type::float32,
                           static_cast<uint64_t>(numbers)};
    };
    parts.weights = shape(count);
    parts.registrar = registrar.handle;
    shard = actors.make<remote_shard_actor, remote_shard_state>(parts);
    payload_buffer state{shape(3 * count)};
    auto numbers = to_tensor(state);
    for (int i = 0; i < 3; ++i)
      numbers.narrow(0, i * count, count).fill_(i + 1);
    auto flat = std::move(state).seal();
    actors.tell(shard, begin_atom_v, caf::strong_actor_ptr{}, transfer_id{1},
                shard_state{version{4}, 4, true, {}, {}, range_first},
                flat.shape());
    chunk all;
    all.transfer = transfer_id{1};
    all.size = flat.shape().bytes();
    all.source = flat;
    actors.tell(shard, chunk_atom_v, all);
  }

  /// Asks for its state, with the slots into this file.
  void ask(const std::filesystem::path& file) {
    auto places = files.places;
    places.slots.file = file.string();
    actors.tell(shard, state_atom_v, piece_wanted, places);
  }

  /// How many numbers came in chunks. Checks that those of each part are all
  /// the same.
  int64_t sent() const {
    const auto& bytes = registrar->bytes;
    std::vector<float> numbers(bytes.size() / sizeof(float));
    std::ranges::copy(bytes,
                      std::as_writable_bytes(std::span{numbers}).begin());
    auto all = static_cast<int64_t>(numbers.size());
    for (int64_t i = 0; i < all; ++i)
      if (numbers[i] != static_cast<float>(i / count + 1))
        FAIL("number " << i << " is " << numbers[i]);
    return all;
  }

  int64_t count;
  actor_fixture actors;
  registrar_stand_in registrar = make_registrar_notes(actors);
  slot_draft files{all_parameters, 2};
  remote_shard_actor shard;
};

} // namespace

TEST_CASE("a shard writes its state to where it belongs, and sends nothing") {
  one_shard it;
  it.ask(it.files.files->optimizer.path());
  CHECK((it.registrar->written == std::vector<std::string>{""}));
  CHECK(it.sent() == 0);
  auto expected = [&](int number) {
    auto out = at::zeros({all_parameters});
    out.narrow(0, range_first, it.count).fill_(number);
    return out;
  };
  CHECK(it.files.weights().equal(expected(1)));
  CHECK(it.files.numbers(0).equal(expected(2)));
  CHECK(it.files.numbers(1).equal(expected(3)));
}

TEST_CASE("a shard that cannot write to one of the files sends all") {
  one_shard it;
  auto file = it.files.files->optimizer.path();
  SECTION("it is on another host") {
    file += "-elsewhere";
  }
  SECTION("it is no draft") {
    file = it.files.folder / "metrics.jsonl";
    testing::spill(file, std::string(1000, 'x'));
  }
  SECTION("it is a link") {
    auto target = it.files.folder / "metrics.jsonl";
    testing::spill(target, std::string(1000, 'x'));
    file += "-link";
    std::filesystem::create_symlink(target, file);
  }
  SECTION("it is too short") {
    file += "-short";
    testing::spill(file, "x");
  }
  it.ask(file);
  CHECK(it.registrar->written.empty());
  CHECK(it.sent() == 3 * it.count);
  CHECK((it.files.numbers(0) == 0).all().item<bool>());
  for (const auto& one :
       std::filesystem::directory_iterator{it.files.folder.path()})
    if (one.path() != it.files.files->optimizer.path() &&
        one.path() != it.files.files->model.path())
      CHECK(testing::slurp(one.path()).find_first_not_of('x') ==
            std::string::npos);
}

TEST_CASE("weights that are under way do not change with the next step") {
  constexpr int64_t many = 2 * transport::default_window_bytes / 4;
  one_shard it{many};
  it.actors.tell(it.shard, state_atom_v, piece_wanted, state_request{});
  CHECK(it.sent() == many / 2); // The other half waits for credit.
  push_header gradient;
  gradient.id = {worker_id{0}, life_number{1}, sequence{1}};
  auto pushed = it.actors.ask<release_header, payload>(
    it.shard, push_atom_v, gradient, constant_payload(many, 1));
  it.actors.run();
  it.actors.tell(it.shard, order_atom_v,
                 shard_step{version{5}, {gradient.id}, {real{1}}, real{0.1}});
  REQUIRE(it.actors.alive(it.shard));
  it.actors.tell(it.shard, credit_atom_v, piece_wanted,
                 transport::default_window_bytes);
  CHECK(it.sent() == many);
}
