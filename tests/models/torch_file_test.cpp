#include "config/text/failure.hpp"
#include "models/exchange/pickle.hpp"
#include "models/exchange/torch_writer.hpp"
#include "models/exchange/weights_file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/zip_archive.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstring>
#include <random>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string bytes_of(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()),
          numbers.size() * sizeof(float)};
}

std::vector<float> floats_in(const named_tensor& tensor) {
  std::vector<float> out(tensor.bytes.size() / sizeof(float));
  std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
  return out;
}

const std::string numbers = bytes_of({1, 2, 3, 4, 5, 6});

/// A tensor of 2x3 in a storage of six.
std::string two_by_three() {
  return pickled(pickled_tensor{"0", 6, {2, 3}, {3, 1}});
}

class torch_files {
public:
  weights_file read(const std::string& content) const {
    spill(folder_ / "w.pt", content);
    return weights_file{folder_ / "w.pt"};
  }

  weights_file read_value(const std::string& pickled_value) const {
    return read(torch_file(whole_pickle(pickled_value), {numbers}));
  }

  void refuses(const std::string& content, const std::string& why) const {
    INFO(why);
    CHECK_THROWS_WITH(read(content),
                      ContainsSubstring("w.pt: ") && ContainsSubstring(why));
  }

  void refuses_value(const std::string& pickled_value,
                     const std::string& why) const {
    refuses(torch_file(whole_pickle(pickled_value), {numbers}), why);
  }

  const temporary_folder& folder() const { return folder_; }

private:
  temporary_folder folder_;
};

} // namespace

TEST_CASE_METHOD(torch_files, "a state dict is read as it is") {
  auto file = read_value(pickled_items({{"a.weight", two_by_three()}}));
  REQUIRE(file.tensors().size() == 1);
  const auto& tensor = file.tensors().at("a.weight");
  CHECK(tensor.dtype == "F32");
  CHECK(tensor.shape == std::vector<int64_t>{2, 3});
  CHECK(floats_in(tensor) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK_FALSE(file.has_optimizer());
  CHECK(file.sha256() == digest_of_file(folder() / "w.pt"));
}

TEST_CASE_METHOD(torch_files, "a tensor may lie in memory in another order") {
  auto transposed = pickled(pickled_tensor{"0", 6, {2, 3}, {1, 2}});
  auto part = pickled(pickled_tensor{"0", 6, {2}, {3}, 1});
  auto file = read_value(pickled_items({{"t", transposed}, {"p", part}}));
  CHECK(floats_in(file.tensors().at("t")) ==
        std::vector<float>{1, 3, 5, 2, 4, 6});
  CHECK(floats_in(file.tensors().at("p")) == std::vector<float>{2, 5});
}

TEST_CASE_METHOD(torch_files, "a checkpoint holds its state dict under a key") {
  auto key = GENERATE("state_dict", "model", "model_state_dict");
  auto state = pickled_items({{"module.a", two_by_three()}});
  auto file =
    read_value(pickled_items({{"epoch", "K\3"},
                              {key, state},
                              {"optimizer", pickled_items({{"state", "}"}})},
                              {"arch", pickled_text("net")}}));
  CHECK(file.tensors().contains("module.a"));
  CHECK(file.has_optimizer());
}

TEST_CASE_METHOD(torch_files, "names other than those of tensors are refused") {
  refuses_value(pickled_items({{"a", two_by_three()},
                               {"args", "cargparse\nNamespace\n)R"}}),
                "an object of argparse.Namespace");
  refuses_value("cos\nsystem\n(" + pickled_text("true") + "tR",
                "an object of os.system");
  refuses_value(pickled_text("os") + pickled_text("system") + "\x93",
                "an object of os.system");
  refuses_value("c__builtin__\neval\n)R", "an object of __builtin__.eval");
}

TEST_CASE_METHOD(torch_files, "what lies about its tensors is refused") {
  auto refuses_tensor = [&](const pickled_tensor& tensor, const char* why) {
    refuses_value(pickled_items({{"a", pickled(tensor)}}), why);
  };
  refuses_tensor({"0", 7, {7}, {1}}, "says that its storage has 7 elements");
  refuses_tensor({"0", 6, {7}, {1}}, "reaches beyond its storage");
  refuses_tensor({"0", 6, {3}, {1}, 4}, "reaches beyond its storage");
  refuses_tensor({"0", 6, {1000, 1000}, {0, 0}}, "more elements than lie in");
  refuses_tensor({"0", 6, {-1}, {1}}, "not made in a known way");
  refuses_tensor({"0", 6, {2, 3}, {1}}, "not made in a known way");
  refuses_tensor({"5", 6, {6}, {1}}, "which is not there");
  refuses_tensor({"0", 6, {1 << 30, 1 << 30, 1 << 30}, {1, 1, 1}},
                 "impossible shape");
  refuses_value(pickled_items({{"epoch", "K\3"}}), "holds no state dict");
  refuses_value("}", "holds no state dict");
}

TEST_CASE_METHOD(torch_files, "copies do not make a small file large") {
  std::vector<std::pair<std::string, std::string>> many;
  for (int i = 0; i < 100; ++i)
    many.emplace_back("t" + std::to_string(i),
                      pickled(pickled_tensor{"0", 6000, {2, 3000}, {1, 2}}));
  refuses(
    torch_file(whole_pickle(pickled_items(many)), {std::string(24000, '\0')}),
    "share storage in an unusual way");
}

TEST_CASE_METHOD(torch_files, "pickles that are wrong are refused") {
  refuses_value("u", "takes from a stack without a mark");
  refuses_value("0", "takes from an empty stack");
  refuses_value("h\x09", "recalls what it did not store");
  refuses_value("]K\1s", "looks at an empty stack");
  refuses_value("]K\1K\2s", "sets items of what is no dictionary");
  refuses_value("K\1K\2a", "appends to what is no list");
  refuses_value("K\1K\2R", "calls what is no function");
  refuses_value("K\1K\2b", "gives a state to a plain value");
  refuses_value("\x81", "the operation 129");
  refuses_value("X\xff\xff\xff\xff", "is cut off");
  refuses_value(std::string(100, '('), "nested deeper than");
  std::string deep = "]";
  for (int i = 0; i < 100; ++i)
    deep += "\x85";
  refuses_value(deep, "nested deeper than");
  refuses(torch_file("\x80\x09.", {}), "unknown protocol");
  refuses(torch_file("\x80\x02", {}), "is cut off");
}

TEST_CASE_METHOD(torch_files, "a pickle of too many values is refused") {
  std::string all = "(";
  all.append(pickle::most_values + 1, 'N');
  refuses_value(all + "t", "holds more than");
}

TEST_CASE_METHOD(torch_files, "archives that are wrong are refused") {
  auto pickle = whole_pickle(pickled_items({{"a", two_by_three()}}));
  std::vector<zip_file> files{{"w/data.pkl", pickle}, {"w/data/0", numbers}};
  auto good = zip_of(files);
  CHECK(read(good).tensors().size() == 1);
  auto with = [&](size_t which, auto change) {
    auto changed = files;
    change(changed[which]);
    return zip_of(changed);
  };
  refuses(with(1, [](auto& x) { x.method = 8; }), "compressed or encrypted");
  refuses(with(1, [](auto& x) { x.size = 1u << 30; }), "is cut off");
  refuses(with(1, [](auto& x) { x.first = 3; }), "not where its directory");
  refuses(with(1, [](auto& x) { x.first = 1u << 30; }), "outside the file");
  refuses(with(1, [](auto& x) { x.name = "w/data.pkl"; }), "two members alike");
  refuses(good.substr(0, good.size() - 5), "no complete zip archive");
  refuses(zip_of({{"w/x", ""}}), "none of torch.save");
  refuses(zip_of({{"w/data.pkl", pickle}, {"w/constants.pkl", ""}}),
          "is a TorchScript file");
  refuses(zip_of({{"w/data.pkl", pickle}, {"w/byteorder", "big"}}),
          "big-endian");
}

TEST_CASE_METHOD(torch_files, "other files are told apart") {
  refuses("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
          "before 1.6");
  refuses("weights", "neither a safetensors file nor one of torch.save");
  refuses("", "neither a safetensors file nor one of torch.save");
  CHECK_THROWS_WITH(weights_file{folder() / "none"},
                    ContainsSubstring("none: No such file"));
}

TEST_CASE_METHOD(torch_files, "a file cut or changed anywhere does no harm") {
  auto seed = GENERATE(range(0, 8));
  std::mt19937 random(static_cast<uint32_t>(seed));
  auto good = torch_file(
    whole_pickle(pickled_items({{"a", two_by_three()}, {"b", two_by_three()}})),
    {numbers});
  for (int i = 0; i < 50; ++i) {
    auto changed = good;
    changed[random() % changed.size()] = static_cast<char>(random());
    if (i % 5 == 0)
      changed.resize(random() % changed.size());
    try {
      auto file = read(changed);
      for (const auto& [key, tensor] : file.tensors())
        CHECK(tensor.bytes.size() <= changed.size());
    } catch (const run_error& why) {
      CHECK(std::string_view{why.what()}.find('\n') == std::string_view::npos);
    }
  }
}

TEST_CASE_METHOD(torch_files, "what is written is read again") {
  std::vector<float> a{1, -2, 3.5};
  std::vector<int64_t> counter{1'000'000'000'000};
  named_tensor tensors[]{
    {"a.weight", "F32", {3, 1}, std::as_bytes(std::span{a})},
    {"a.count", "I64", {}, std::as_bytes(std::span{counter})},
    {"a.none", "F32", {0, 2}, {}},
    {"b.unsigned", "U16", {6}, std::as_bytes(std::span{a})},
    {"b.small", "F8_E4M3", {3, 4}, std::as_bytes(std::span{a})},
    {"b.complex", "C64", {1}, std::as_bytes(std::span{counter})},
    {"b.none", "U64", {0}, {}},
  };
  auto path = folder() / "out.pt";
  output_file out{path};
  write_torch(out, tensors);
  out.finish();
  weights_file again{path};
  REQUIRE(again.tensors().size() == std::size(tensors));
  for (const auto& tensor : tensors) {
    const auto& found = again.tensors().at(tensor.name);
    CHECK(found.dtype == tensor.dtype);
    CHECK(found.shape == tensor.shape);
    CHECK(std::ranges::equal(found.bytes, tensor.bytes));
  }
}
