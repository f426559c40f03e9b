// Files of tensors that come in pieces.

#include "config/text/failure.hpp"
#include "models/storage/checkpoint.hpp"
#include "models/storage/tensor_draft.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::models;
using troupe::testing::slurp;
using troupe::testing::temporary_folder;

namespace {

/// More than one block of the draft.
constexpr int64_t count = 300'000;

std::vector<float> numbers(float first) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

std::vector<named_tensor> named(std::span<const float> one,
                                std::span<const float> two) {
  return {{"optim.a.x", "F32", {count}, std::as_bytes(one)},
          {"optim.b.x", "F32", {3, count / 3}, std::as_bytes(two)}};
}

/// Puts it in pieces of any size, in any order.
void put_in_pieces(tensor_draft& to, std::span<const std::byte> all,
                   uint64_t first) {
  std::mt19937 random{5};
  std::vector<std::pair<uint64_t, uint64_t>> pieces; // First and size.
  for (uint64_t at = 0; at < all.size();) {
    auto size = std::min<uint64_t>(1 + random() % 50'000, all.size() - at);
    pieces.emplace_back(at, size);
    at += size;
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  for (auto [at, size] : pieces)
    to.put(first + at, all.subspan(at, size));
}

} // namespace

TEST_CASE("a checkpoint from pieces has the bytes of one from memory") {
  temporary_folder folder;
  auto one = numbers(0);
  auto two = numbers(0.5f);
  auto tensors = named(one, two);
  proto::Manifest manifest;
  manifest.set_step(3);
  auto whole = write_checkpoint(folder / "whole", manifest, {}, tensors);
  auto dir = folder / "pieces";
  auto draft = draft_optimizer_file(dir, tensors);
  put_in_pieces(*draft, std::as_bytes(std::span{two}), one.size() * 4);
  put_in_pieces(*draft, std::as_bytes(std::span{one}), 0);
  std::vector<std::byte> read;
  draft->read(one.size() * 4, two.size() * 4,
              [&](std::span<const std::byte> bytes) {
                CHECK(bytes.size() <= tensor_draft::block);
                read.insert(read.end(), bytes.begin(), bytes.end());
              });
  CHECK(std::ranges::equal(read, std::as_bytes(std::span{two})));
  auto found = write_checkpoint(dir, manifest, {}, *draft);
  draft.reset();
  for (auto file : {"optimizer.safetensors", "manifest.pb"})
    CHECK(slurp(found / file) == slurp(whole / file));
  CHECK(read_checkpoint(found).optimizer.tensors().size() == 2);
}

TEST_CASE(
  "a draft that is given up leaves nothing, and one of a killed process "
  "is a leftover") {
  temporary_folder folder;
  auto one = numbers(0);
  {
    auto draft = draft_optimizer_file(folder.path(), named(one, one));
    auto copy = folder / ".tmp-draft-99";
    std::ofstream{copy} << "x";
    CHECK(remove_leftovers(folder.path()) == 2); // Nobody writes then.
    CHECK(list_checkpoints(folder.path()).empty());
  }
  auto draft = draft_optimizer_file(folder.path(), named(one, one));
  CHECK_FALSE(std::filesystem::is_empty(folder.path()));
  draft.reset();
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE(
  "pieces that others have written are in a draft that is opened anew") {
  temporary_folder folder;
  auto one = numbers(0);
  auto two = numbers(0.5f);
  auto draft = draft_optimizer_file(folder.path(), named(one, two));
  draft->put(0, std::as_bytes(std::span{one}));
  {
    draft_piece theirs{draft->path()};
    theirs.put(draft->head() + one.size() * 4, std::as_bytes(std::span{two}));
    theirs.sync();
  }
  draft->reopen();
  std::vector<std::byte> read;
  draft->read(0, (one.size() + two.size()) * 4,
              [&](std::span<const std::byte> bytes) {
                read.insert(read.end(), bytes.begin(), bytes.end());
              });
  auto half = read.begin() + static_cast<ptrdiff_t>(one.size() * 4);
  CHECK(std::equal(read.begin(), half, std::as_bytes(std::span{one}).begin()));
  CHECK(std::equal(half, read.end(), std::as_bytes(std::span{two}).begin()));
}

TEST_CASE("two drafts of a folder have names of their own") {
  temporary_folder folder;
  auto one = numbers(0);
  auto all = named(one, one);
  CHECK(draft_optimizer_file(folder.path(), all)->path() !=
        draft_optimizer_file(folder.path(), all)->path());
}

TEST_CASE("a piece beyond the end of a draft is refused") {
  temporary_folder folder;
  auto one = numbers(0);
  auto draft = draft_optimizer_file(folder.path(), named(one, one));
  auto line = test::error_line<run_error>([&] {
    draft->put(2 * one.size() * 4 - 1, std::as_bytes(std::span{one}).first(2));
  });
  CHECK(line.find("beyond its end") != std::string::npos);
}
