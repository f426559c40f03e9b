#include "config/text/failure.hpp"
#include "models/storage/safetensors.hpp"
#include "tests/models/checkpoint_samples.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <random>

using namespace troupe;
using namespace troupe::models;
using Catch::Matchers::ContainsSubstring;
using testing::bytes_of;
using testing::slurp;
using testing::spill;
using testing::temporary_folder;

namespace {

using namespace std::string_literals;

/// A file made of this header and these data bytes, with a right length.
std::string file_of(std::string header, const std::string& data) {
  uint64_t length = header.size();
  std::string result(8, '\0');
  std::memcpy(result.data(), &length, 8);
  return result + header + data;
}

tensor_file parse(const std::string& text) {
  file_bytes content{text.size()};
  std::memcpy(content.span().data(), text.data(), text.size());
  return tensor_file{std::move(content), "x.safetensors"};
}

} // namespace

TEST_CASE("a sealed file is sealed by what formats.md says") {
  temporary_folder folder;
  std::vector<float> a{1, 2};
  // Text in the metadata that looks like the seal is not taken for it.
  auto trap = R"("troupe_sha256":")" + std::string(64, '0');
  named_tensor tensor{"a", "F32", {2}, bytes_of(a)};
  output_file out{folder / "sealed"};
  write_sealed_safetensors(out, {&tensor, 1}, {{"about", trap}});
  out.finish();
  auto text = slurp(folder / "sealed");
  auto file = parse(text);
  CHECK(file.metadata().at("about") == trap);
  auto seal = file.metadata().at("troupe_sha256");
  auto at = text.find(seal);
  auto zeroed = text;
  zeroed.replace(at, 64, std::string(64, '0'));
  CHECK(to_hex(sha256_of(std::as_bytes(std::span{zeroed}))) == seal);
  CHECK_THROWS_WITH(parse(zeroed), ContainsSubstring("its checksum"));
  text.back() ^= 1;
  CHECK_THROWS_WITH(parse(text), "x.safetensors: its checksum does not match");
}

// These bytes were made by the reference implementation (safetensors 0.8.0).
const auto golden =
  "\x90\0\0\0\0\0\0\0"s
  R"({"__metadata__":{"format":"pt"},)"
  R"("b":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
  R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]}}   )"
  "\x07\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\0\xbf"s;

TEST_CASE("what is written is what the reference implementation writes") {
  temporary_folder folder;
  std::vector<float> a{1, 2, 3, -0.5F};
  std::vector<int64_t> b{7};
  std::vector<named_tensor> tensors{{"a", "F32", {2, 2}, bytes_of(a)},
                                    {"b", "I64", {1}, bytes_of(b)}};
  output_file out{folder / "golden"};
  write_safetensors(out, tensors, {{"format", "pt"}});
  CHECK(out.size() == golden.size());
  out.finish();
  CHECK(slurp(folder / "golden") == golden);
}

TEST_CASE("a file of the reference implementation is read") {
  auto file = parse(golden);
  CHECK(file.metadata() == tensor_metadata{{"format", "pt"}});
  REQUIRE(file.tensors().size() == 2);
  CHECK(file.tensors()[0].name == "b");
  const auto* a = file.find("a");
  REQUIRE(a != nullptr);
  CHECK(a->dtype == "F32");
  CHECK(a->shape == std::vector<int64_t>{2, 2});
  float last = 0;
  std::memcpy(&last, a->bytes.data() + 12, 4);
  CHECK(last == -0.5F);
  CHECK(file.find("c") == nullptr);
}

TEST_CASE("views stay valid when a tensor file moves") {
  auto file = parse(golden);
  auto moved = std::move(file);
  CHECK(moved.find("b")->bytes[0] == std::byte{7});
}

TEST_CASE("an empty file of tensors can be written and read") {
  temporary_folder folder;
  output_file out{folder / "none"};
  write_safetensors(out, {});
  out.finish();
  CHECK(read_safetensors(folder / "none").tensors().empty());
}

TEST_CASE("random tensors come back as they were") {
  auto seed = GENERATE(range(0u, 20u));
  std::mt19937 random{seed};
  auto below = [&](unsigned n) {
    return random() % n;
  };
  const std::vector<std::string> types{"F64",  "F32", "F16",
                                       "BF16", "I64", "U8"};
  std::vector<std::vector<std::byte>> memory;
  std::vector<named_tensor> tensors;
  auto count = below(12);
  for (unsigned i = 0; i < count; ++i) {
    named_tensor x;
    x.name = "layer." + std::to_string(i) + ".\"\\\xc3\xa4";
    x.dtype = types[below(6)];
    size_t elements = 1;
    for (auto rank = below(5); rank > 0; --rank) {
      x.shape.push_back(below(5));
      elements *= static_cast<size_t>(x.shape.back());
    }
    auto& bytes = memory.emplace_back(elements * dtype_size(x.dtype));
    for (auto& b : bytes)
      b = static_cast<std::byte>(random());
    x.bytes = bytes;
    tensors.push_back(x);
  }
  temporary_folder folder;
  output_file out{folder / "x"};
  write_safetensors(out, tensors);
  out.finish();
  auto file = read_safetensors(folder / "x");
  REQUIRE(file.tensors().size() == tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto* x = file.find(tensors[i].name);
    REQUIRE(x != nullptr);
    CHECK(x->dtype == tensors[i].dtype);
    CHECK(x->shape == tensors[i].shape);
    CHECK(std::ranges::equal(x->bytes, memory[i]));
    CHECK(reinterpret_cast<uintptr_t>(x->bytes.data()) % dtype_size(x->dtype) ==
          0);
  }
}

TEST_CASE("a damaged safetensors file is refused with one clear line") {
  struct row {
    std::string text;
    std::string complaint;
  };
  auto one = [](const std::string& entry) {
    return file_of(R"({"a":)" + entry + "}", std::string(8, 'x'));
  };
  auto x = GENERATE_COPY(values<row>({
    {"", "too short"},
    {"\1\0\0"s, "too short"},
    {"\xff\0\0\0\0\0\0\0{}"s, "header length is out of range: 255"},
    {"\xff\xff\xff\xff\xff\xff\xff\xff{}", "header length is out of range"},
    {file_of("{", ""), "not valid JSON"},
    {file_of("{\"a\xff\":1}", ""), "not valid JSON"},
    {file_of("[]", ""), "not a JSON object"},
    {file_of(std::string(5000, '['), ""), "nested too deeply"},
    {file_of(R"({"a":1,"a":2})", ""), "names twice: a"},
    {file_of(R"({"__metadata__":[]})", ""), "__metadata__"},
    {file_of(R"({"__metadata__":{"k":1}})", ""), "not text: k"},
    {one("1"), "tensor a: it needs dtype"},
    {one(R"({"dtype":"F32","shape":[2]})"), "tensor a: it needs dtype"},
    {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"),
     "nothing else"},
    {one(R"({"dtype":"Q7","shape":[2],"data_offsets":[0,8]})"),
     "unknown dtype \"Q7\""},
    {one(R"({"dtype":4,"shape":[2],"data_offsets":[0,8]})"), "unknown dtype"},
    {one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "bad shape"},
    {one(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"), "bad shape"},
    {one(R"({"dtype":"F32","shape":[2.5],"data_offsets":[0,8]})"), "bad shape"},
    {one(
       R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})"),
     "bad shape"},
    {one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"),
     "bad data_offsets"},
    {one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
     "outside the file"},
    {one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,12]})"),
     "outside the file"},
    {one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
     "does not fit its data_offsets"},
    // The product overflows to 8 bytes.
    {one(
       R"({"dtype":"F32","shape":[4611686018427387906,4],"data_offsets":[0,8]})"),
     "does not fit its data_offsets"},
    {one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
     "belong to no tensor"},
    {one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), "a hole"},
    {file_of(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
             R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
             "12345678"),
     "tensor b: there is a hole or an overlap"},
  }));
  CAPTURE(x.text);
  CHECK_THROWS_AS(parse(x.text), run_error);
  CHECK_THROWS_WITH(parse(x.text), ContainsSubstring("x.safetensors: ") &&
                                     ContainsSubstring(x.complaint) &&
                                     !ContainsSubstring("\n"));
}

TEST_CASE("no cut or flipped bit makes the reader do more than refuse") {
  for (size_t i = 0; i < golden.size(); ++i)
    CHECK_THROWS_AS(parse(golden.substr(0, i)), run_error);
  for (size_t i = 0; i < 8 * golden.size(); ++i) {
    auto damaged = golden;
    damaged[i / 8] ^= static_cast<char>(1 << (i % 8));
    try {
      parse(damaged);
    } catch (const run_error&) {
      continue;
    }
  }
}

TEST_CASE("tensors that do not fit their shape are not written") {
  temporary_folder folder;
  std::vector<float> a{1, 2};
  output_file out{folder / "x"};
  auto write = [&](named_tensor x) {
    std::vector<named_tensor> tensors{x};
    write_safetensors(out, tensors);
  };
  CHECK_THROWS_WITH(write({"a", "F32", {3}, bytes_of(a)}),
                    ContainsSubstring("tensor a: its shape does not fit"));
  CHECK_THROWS_WITH(write({"a", "C32", {1}, bytes_of(a)}),
                    ContainsSubstring("unknown dtype C32"));
  CHECK_THROWS_WITH(write({"__metadata__", "F32", {2}, bytes_of(a)}),
                    ContainsSubstring("used twice"));
  std::vector<named_tensor> twice(2, {"a", "F32", {2}, bytes_of(a)});
  CHECK_THROWS_WITH(write_safetensors(out, twice),
                    ContainsSubstring("used twice: a"));
}

TEST_CASE("a name of a tensor cannot break an error's one line") {
  auto line_of = [](const std::string& header) {
    try {
      parse(file_of(header, "1234"));
      return std::string{};
    } catch (const run_error& why) {
      return std::string{why.what()};
    }
  };
  CHECK(
    line_of(R"({"a\nb":{}})") ==
    "x.safetensors: tensor a\\x0ab: it needs dtype, shape and data_offsets, "
    "and nothing else");
  CHECK(line_of(R"({"a\nb":{},"a\nb":{}})") ==
        "x.safetensors: the header names twice: a\\x0ab");
  CHECK(line_of(R"({"__metadata__":{"a\u001b":1}})") ==
        "x.safetensors: __metadata__ has a value that is not text: a\\x1b");
  auto dtype = std::string(500, 'F');
  CHECK(line_of(R"({"a":{"dtype":")" + dtype +
                R"(","shape":[],"data_offsets":[0,4]}})")
          .size() < 150);
}
