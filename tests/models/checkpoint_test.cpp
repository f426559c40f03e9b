#include "config/text/failure.hpp"
#include "models/storage/checkpoint.hpp"
#include "tests/models/checkpoint_samples.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <set>

using namespace troupe;
using namespace troupe::models;
using Catch::Matchers::ContainsSubstring;
using testing::sample_manifest;
using testing::sample_tensors;
using testing::temporary_folder;
using testing::write_sample;

namespace fs = std::filesystem;

namespace {

/// Gives every field of a message, at any depth, a value that is not its
/// default and differs from all others.
void fill(google::protobuf::Message& message, uint64_t& next) {
  using google::protobuf::FieldDescriptor;
  const auto* type = message.GetDescriptor();
  const auto* access = message.GetReflection();
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    for (int n = field->is_repeated() ? 2 : 1; n > 0; --n) {
      auto x = ++next;
      auto text = "text-" + std::to_string(x);
      switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        fill(field->is_repeated() ? *access->AddMessage(&message, field)
                                  : *access->MutableMessage(&message, field),
             next);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        field->is_repeated() ? access->AddString(&message, field, text)
                             : access->SetString(&message, field, text);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        field->is_repeated() ? access->AddUInt64(&message, field, x << 33)
                             : access->SetUInt64(&message, field, x << 33);
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        access->SetUInt32(&message, field, static_cast<uint32_t>(x));
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        access->SetDouble(&message, field, static_cast<double>(x) + 0.1);
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        access->SetBool(&message, field, true);
        break;
      default:
        FAIL(
          "a field of a type this test does not know: " << field->full_name());
      }
    }
  }
}

} // namespace

TEST_CASE("a checkpoint comes back as it was written") {
  temporary_folder folder;
  sample_tensors tensors{100};
  auto path = write_checkpoint(folder / "checkpoints", sample_manifest(100),
                               {tensors.weights, tensors.slots});
  CHECK(path == folder / "checkpoints" / "step-00000100");
  for (const auto& at : {path, path / ""}) {
    auto loaded = read_checkpoint(at);
    CHECK(loaded.path == path);
    CHECK(loaded.manifest.step() == 100);
    REQUIRE(loaded.model.tensors().size() == 3);
    for (const auto& x : tensors.weights) {
      const auto* y = loaded.model.find(x.name);
      REQUIRE(y != nullptr);
      CHECK(y->shape == x.shape);
      CHECK(y->dtype == x.dtype);
      CHECK(std::ranges::equal(y->bytes, x.bytes));
    }
    REQUIRE(loaded.optimizer.tensors().size() == 1);
    CHECK(loaded.optimizer.tensors()[0].name ==
          "optim.momentum_buffer.conv1.weight");
  }
}

TEST_CASE("the optimiser's state stays on the disk, and parts of it are read") {
  temporary_folder folder;
  sample_tensors tensors{1};
  auto path = write_checkpoint(folder.path(), sample_manifest(1),
                               {tensors.weights, tensors.slots});
  auto file = read_checkpoint(path).optimizer;
  const auto* slot = file.find("optim.momentum_buffer.conv1.weight");
  REQUIRE(slot != nullptr);
  CHECK(slot->bytes.empty());
  fs::remove_all(path); // As when newer ones push it out.
  auto all = tensors.slots.front().bytes;
  for (size_t first : {size_t{0}, size_t{4}, all.size() - 4}) {
    std::vector<std::byte> found(4);
    file.read(*slot, first, found);
    CHECK(std::ranges::equal(found, all.subspan(first, 4)));
  }
}

TEST_CASE("tensors with several names are stored once and read under each") {
  temporary_folder folder;
  sample_tensors tensors{1};
  auto path = write_checkpoint(
    folder.path(), sample_manifest(1),
    {tensors.weights, tensors.slots, {{"tied.weight", "conv1.weight"}}});
  auto file = read_checkpoint(path).model;
  CHECK(file.tensors().size() == 3);
  auto all = with_other_names(file);
  REQUIRE(all.size() == 4);
  CHECK(all.back().name == "tied.weight");
  CHECK(all.back().bytes.data() == file.find("conv1.weight")->bytes.data());
}

TEST_CASE("weights can be read without the optimiser's state") {
  temporary_folder folder;
  auto path = write_sample(folder.path(), 7);
  fs::resize_file(path / "optimizer.safetensors", 10);
  CHECK_THROWS_AS(read_checkpoint(path), run_error);
  auto found = find_checkpoint(folder.path(), {}, checkpoint_content::weights);
  CHECK(found.model.tensors().size() == 3);
  CHECK(found.optimizer.tensors().empty());
}

TEST_CASE("a file that is hashed while it is read comes whole") {
  temporary_folder folder;
  for (size_t size : {0u, 1u, 8u << 20, (16u << 20) + 3}) {
    INFO(size);
    std::string text(size, 'x');
    for (size_t i = 0; i < size; i += 4096)
      text[i] = static_cast<char>(i / 4096);
    replace_file(folder / "file", text);
    auto [bytes, digest] = read_and_hash(folder / "file");
    auto expected = std::as_bytes(std::span{text});
    CHECK(std::ranges::equal(std::as_const(bytes).span(), expected));
    CHECK(digest == sha256_of(expected));
  }
  CHECK_THROWS_AS(read_and_hash(folder / "absent"), run_error);
  CHECK_THROWS_AS(read_and_hash(folder / "file", 1000), run_error);
}

TEST_CASE("a checkpoint holds three files and nothing else is left behind") {
  temporary_folder folder;
  auto path = write_sample(folder.path(), 7);
  std::set<std::string> names;
  for (const auto& x : fs::directory_iterator{path})
    names.insert(x.path().filename().string());
  CHECK(names == std::set<std::string>{"manifest.pb", "model.safetensors",
                                       "optimizer.safetensors"});
  CHECK(std::distance(fs::directory_iterator{folder.path()}, {}) == 1);
}

TEST_CASE("every field of the manifest comes back") {
  temporary_folder folder;
  proto::Manifest manifest;
  uint64_t next = 0;
  fill(manifest, next);
  manifest.set_step(3);
  sample_tensors tensors{3};
  auto path =
    write_checkpoint(folder.path(), manifest, {tensors.weights, tensors.slots});
  auto found = read_checkpoint(path).manifest;
  CHECK(found.format_version() == checkpoint_format);
  REQUIRE(found.files_size() == 2);
  CHECK(found.files(0).name() == "model.safetensors");
  CHECK(found.files(0).size() == fs::file_size(path / "model.safetensors"));
  CHECK(found.files(0).sha256().size() == 32);
  CHECK(found.self_sha256().size() == 32);
  // The rest is the caller's.
  for (auto* x : {&manifest, &found}) {
    x->clear_format_version();
    x->clear_files();
    x->clear_self_sha256();
  }
  CHECK(google::protobuf::util::MessageDifferencer::Equals(manifest, found));
  CHECK(read_manifest(path).step() == 3);
}

TEST_CASE("the same checkpoint has the same bytes") {
  temporary_folder one;
  temporary_folder two;
  auto a = write_sample(one.path(), 5);
  auto b = write_sample(two.path(), 5);
  for (const auto* name :
       {"manifest.pb", "model.safetensors", "optimizer.safetensors"})
    CHECK(testing::slurp(a / name) == testing::slurp(b / name));
}

TEST_CASE("a checkpoint of the same step is replaced") {
  temporary_folder folder;
  write_sample(folder.path(), 100);
  sample_tensors other{555};
  auto path = write_checkpoint(folder.path(), sample_manifest(100),
                               {other.weights, other.slots});
  auto loaded = read_checkpoint(path);
  CHECK(std::ranges::equal(loaded.model.find("conv1.weight")->bytes,
                           other.weights[0].bytes));
  CHECK(std::distance(fs::directory_iterator{folder.path()}, {}) == 1);
}

TEST_CASE("the manifest of a checkpoint is replaced, and the rest stays") {
  temporary_folder folder;
  auto path = write_sample(folder.path(), 100);
  auto before = read_checkpoint(path);
  auto manifest = before.manifest;
  manifest.set_run_id("another");
  replace_manifest(path, manifest);
  auto after = read_checkpoint(path);
  CHECK(after.manifest.run_id() == "another");
  CHECK(after.manifest.files_size() == before.manifest.files_size());
  CHECK(std::ranges::equal(after.model.find("conv1.weight")->bytes,
                           before.model.find("conv1.weight")->bytes));
  CHECK(std::distance(fs::directory_iterator{path}, {}) == 3);
}

TEST_CASE("a file that has a checkpoint's name is replaced, too") {
  temporary_folder folder;
  testing::spill(folder / "step-00000100", "in the way");
  CHECK(read_checkpoint(write_sample(folder.path(), 100)).manifest.step() ==
        100);
}

TEST_CASE("slots of an optimiser need their prefix") {
  temporary_folder folder;
  sample_tensors tensors{1};
  CHECK_THROWS_WITH(
    write_checkpoint(folder.path(), sample_manifest(1),
                     {tensors.weights, tensors.weights}),
    ContainsSubstring("conv1.weight: the name of an optimizer"));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("names of checkpoints sort as numbers do") {
  CHECK(checkpoint_name(0) == "step-00000000");
  CHECK(checkpoint_name(100) == "step-00000100");
  CHECK(checkpoint_name(123456789) == "step-123456789");
}

TEST_CASE("the names in a manifest may hold any bytes, as paths do") {
  temporary_folder folder;
  sample_tensors tensors{7};
  auto manifest = sample_manifest(7);
  manifest.set_network("script:/data/caf\xe9.pt");
  manifest.set_dataset("tar(train=caf\xe9,val=b)");
  auto path =
    write_checkpoint(folder.path(), manifest, {tensors.weights, tensors.slots});
  CHECK(read_checkpoint(path).manifest.network() == manifest.network());
  CHECK(read_manifest(path).dataset() == manifest.dataset());
}
