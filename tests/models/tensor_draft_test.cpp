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
  int64_t batches = 3; // In the file it comes before what is narrower.
  auto bytes_of_batches = std::as_bytes(std::span{&batches, 1});
  std::vector<named_tensor> weights{
    {"x", "F32", {count}, std::as_bytes(std::span{two})},
    {"batches", "I64", {}, bytes_of_batches}};
  tensor_metadata names{{"y", "x"}};
  auto whole =
    write_checkpoint(folder / "whole", manifest, {weights, tensors, names});
  auto dir = folder / "pieces";
  auto drafts =
    std::make_unique<checkpoint_drafts>(dir, weights, tensors, names);
  auto put = [](tensor_draft& to, const char* name, const auto& numbers) {
    put_in_pieces(to, std::as_bytes(std::span{numbers}), to.position(name));
  };
  put(drafts->optimizer, "optim.b.x", two);
  put(drafts->optimizer, "optim.a.x", one);
  put(drafts->model, "x", two);
  drafts->model.put(drafts->model.position("batches"), bytes_of_batches);
  CHECK_THROWS_AS(drafts->model.position("y"), std::out_of_range);
  std::vector<std::byte> read;
  drafts->optimizer.read(drafts->optimizer.position("optim.b.x"),
                         two.size() * 4, [&](std::span<const std::byte> bytes) {
                           CHECK(bytes.size() <= tensor_draft::block);
                           read.insert(read.end(), bytes.begin(), bytes.end());
                         });
  CHECK(std::ranges::equal(read, std::as_bytes(std::span{two})));
  auto found = write_checkpoint(dir, manifest, *drafts);
  drafts.reset();
  for (auto file :
       {"model.safetensors", "optimizer.safetensors", "manifest.pb"})
    CHECK(slurp(found / file) == slurp(whole / file));
  CHECK(read_checkpoint(found).optimizer.tensors().size() == 2);
}

TEST_CASE(
  "a draft that is given up leaves nothing, and one of a killed process "
  "is a leftover") {
  temporary_folder folder;
  auto one = numbers(0);
  {
    auto draft = std::make_unique<tensor_draft>(folder.path(), named(one, one));
    auto copy = folder / ".tmp-draft-99";
    std::ofstream{copy} << "x";
    CHECK(remove_leftovers(folder.path()) == 2); // Nobody writes then.
    CHECK(list_checkpoints(folder.path()).empty());
  }
  auto draft = std::make_unique<tensor_draft>(folder.path(), named(one, one));
  CHECK_FALSE(std::filesystem::is_empty(folder.path()));
  draft.reset();
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE(
  "pieces that others have written are in a draft that is opened anew") {
  temporary_folder folder;
  auto one = numbers(0);
  auto two = numbers(0.5f);
  auto draft = std::make_unique<tensor_draft>(folder.path(), named(one, two));
  draft->put(draft->position("optim.a.x"), std::as_bytes(std::span{one}));
  {
    draft_piece theirs{draft->path()};
    theirs.put(draft->position("optim.b.x"), std::as_bytes(std::span{two}));
    theirs.sync();
  }
  draft->reopen();
  std::vector<std::byte> read;
  draft->read(draft->position("optim.a.x"), (one.size() + two.size()) * 4,
              [&](std::span<const std::byte> bytes) {
                read.insert(read.end(), bytes.begin(), bytes.end());
              });
  auto half = read.begin() + static_cast<ptrdiff_t>(one.size() * 4);
  CHECK(std::equal(read.begin(), half, std::as_bytes(std::span{one}).begin()));
  CHECK(std::equal(half, read.end(), std::as_bytes(std::span{two}).begin()));
}

TEST_CASE("a draft that somebody has removed is not opened anew") {
  temporary_folder folder;
  auto one = numbers(0);
  tensor_draft draft{folder.path(), named(one, one)};
  std::filesystem::remove(draft.path());
  auto line = test::error_line<run_error>([&] { draft.reopen(); });
  CHECK(line.starts_with("cannot open " + draft.path().string() + ": "));
}

TEST_CASE("two drafts of a folder have names of their own") {
  temporary_folder folder;
  auto one = numbers(0);
  auto all = named(one, one);
  tensor_draft first{folder.path(), all};
  tensor_draft second{folder.path(), all};
  CHECK(first.path() != second.path());
}

TEST_CASE("a piece beyond the end of a draft is refused") {
  temporary_folder folder;
  auto one = numbers(0);
  auto draft = std::make_unique<tensor_draft>(folder.path(), named(one, one));
  auto line = test::error_line<run_error>([&] {
    auto last = draft->position("optim.b.x") + one.size() * 4 - 1;
    draft->put(last, std::as_bytes(std::span{one}).first(2));
  });
  CHECK(line.find("beyond its end") != std::string::npos);
}
