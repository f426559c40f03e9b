#include "config/text/failure.hpp"
#include "models/exchange/taken_weights.hpp"
#include "models/storage/durable_file.hpp"
#include "tests/support/temporary_folder.hpp"

#include <ATen/ops/full.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <torch/nn/module.h>

#include <algorithm>
#include <limits>

using namespace troupe;
using namespace troupe::models;
using Catch::Matchers::ContainsSubstring;
using testing::temporary_folder;

namespace {

struct tensor_for_file {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> numbers;
};

/// Two layers: `body.weight` of 2x2 and `head.weight` of 3.
class files_of_weights {
public:
  flat_layout layout =
    flat_layout::from({{"body.weight", {2, 2}}, {"head.weight", {3}}},
                      config::scalar_type::float32);
  at::Tensor flat = at::full({7}, 9, at::kFloat);
  at::Tensor frozen;
  std::vector<tensor_for_file> good{{"body.weight", {2, 2}, {1, 2, 3, 4}},
                                    {"head.weight", {3}, {5, 6, 7}}};

  taken_weights take(const std::vector<tensor_for_file>& tensors,
                     const std::string& skip = "") {
    std::vector<named_tensor> all;
    for (const auto& each : tensors)
      all.push_back(
        {each.name, "F32", each.shape, std::as_bytes(std::span{each.numbers})});
    return take(all, skip);
  }

  taken_weights take(const std::vector<named_tensor>& tensors,
                     const std::string& skip) {
    auto path = folder / "w.safetensors";
    output_file out{path};
    write_safetensors(out, tensors);
    out.finish();
    return take_weights(weights_file{path}, "net", layout,
                        config::parse_key_patterns(skip), {flat, frozen});
  }

  std::vector<float> numbers() const {
    const auto* data = flat.const_data_ptr<float>();
    return {data, data + flat.numel()};
  }

  temporary_folder folder;
};

} // namespace

TEST_CASE_METHOD(files_of_weights, "all weights come from the file") {
  auto taken = take(good);
  CHECK(taken.count == 2);
  CHECK(taken.skipped.empty());
  CHECK(numbers() == std::vector<float>{1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE_METHOD(files_of_weights, "what is skipped stays as it was") {
  good[1] = {"head.weight", {5}, {1, 1, 1, 1, 1}};
  auto taken = take(good, "head.*");
  CHECK(taken.count == 1);
  CHECK(taken.skipped == std::vector<std::string>{"head.weight"});
  CHECK(numbers() == std::vector<float>{1, 2, 3, 4, 9, 9, 9});
}

TEST_CASE_METHOD(files_of_weights, "other precisions are converted") {
  std::vector<double> body{1, 2, 3, 1e-3};
  std::vector<uint16_t> head{0x3f80, 0x4000, 0xc000}; // bfloat16: 1, 2, -2
  take({{"body.weight", "F64", {2, 2}, std::as_bytes(std::span{body})},
        {"head.weight", "BF16", {3}, std::as_bytes(std::span{head})}},
       "");
  CHECK(numbers() == std::vector<float>{1, 2, 3, 1e-3f, 1, 2, -2});
}

TEST_CASE_METHOD(files_of_weights,
                 "weights with two names come from either or both") {
  torch::nn::Module net;
  auto weight = net.register_parameter("a", at::zeros({2}));
  net.register_parameter("b", weight);
  net.register_parameter("c", at::zeros({1}));
  layout = flat_layout::from(net);
  flat = at::full({3}, 9, at::kFloat);
  tensor_for_file a{"a", {2}, {1, 2}}, b{"b", {2}, {1, 2}}, c{"c", {1}, {3}};
  for (const auto& all : {std::vector{a, b, c}, {a, c}, {b, c}}) {
    flat.fill_(9);
    CHECK(take(all).count == 2);
    CHECK(numbers() == std::vector<float>{1, 2, 3});
  }
  CHECK_THROWS_WITH(take({c}), ContainsSubstring("1 tensor missing (a)"));
  b.numbers = {1, 4};
  CHECK_THROWS_WITH(take({a, b, c}),
                    ContainsSubstring("tensors a and b differ, and net has one "
                                      "for both; --init-skip b leaves it out"));
  flat.fill_(9);
  CHECK(take({a, b, c}, "b").skipped == std::vector<std::string>{"a"});
  CHECK(numbers() == std::vector<float>{9, 9, 3});
}

TEST_CASE_METHOD(files_of_weights, "files that do not fit are refused") {
  auto refuses = [&](std::vector<tensor_for_file> all, const std::string& why) {
    INFO(why);
    CHECK_THROWS_WITH(take(all), ContainsSubstring("w.safetensors: ") &&
                                   ContainsSubstring(why));
  };
  refuses({good[0]}, "does not fit net: 1 tensor missing (head.weight)");
  refuses({good[0], good[1], {"x", {}, {1}}}, "1 tensor too many (x)");
  std::vector<tensor_for_file> many;
  for (int i = 0; i < 9; ++i)
    many.push_back({"x" + std::to_string(i), {1}, {1}});
  refuses(many, "2 tensors missing (body.weight, head.weight), 9 tensors too "
                "many (x0, x1, x2, x3, x4 and 4 more)");
  refuses({good[0], {"head.weight", {1, 3}, {1, 2, 3}}},
          "tensor head.weight is 1x3, and that of net is 3");
  auto odd = good;
  odd[1].numbers[1] = std::numeric_limits<float>::quiet_NaN();
  refuses(odd, "tensor head.weight holds NaN");
}

TEST_CASE_METHOD(files_of_weights, "an integer is no weight") {
  std::vector<int64_t> head{1, 2, 3};
  CHECK_THROWS_WITH(
    take({{"body.weight",
           "F32",
           {2, 2},
           std::as_bytes(std::span{good[0].numbers})},
          {"head.weight", "I64", {3}, std::as_bytes(std::span{head})}},
         ""),
    ContainsSubstring("tensor head.weight is of type I64"));
}

TEST_CASE_METHOD(files_of_weights,
                 "names in wrappers are read where they do not fit otherwise") {
  auto renamed = [this](auto rename) {
    auto out = good;
    for (auto& each : out)
      each.name = rename(each.name);
    return out;
  };
  auto before = [](const std::string& text) {
    return [text](const std::string& name) {
      return text + name;
    };
  };
  for (const auto* what : {"module.", "model.", "_orig_mod.module."}) {
    auto taken = take(renamed(before(what)));
    CHECK(taken.count == 2);
    CHECK_THAT(taken.names,
               ContainsSubstring("names of the file are read without '"));
  }
  CHECK(take(good).names.empty());
  auto lightning = renamed(before("model."));
  lightning.push_back({"loss.weight", {1}, {1}});
  CHECK_THROWS_WITH(take(lightning), ContainsSubstring("3 tensors too many"));
  CHECK(take(lightning, "loss.*").count == 2);
  // The network may be in a wrapper, too, or alone.
  layout = flat_layout::from(
    {{"module.body.weight", {2, 2}}, {"module.head.weight", {3}}},
    config::scalar_type::float32);
  CHECK(take(renamed(before("module."))).names.empty());
  CHECK_THAT(take(good).names,
             ContainsSubstring("names of the network are read without "
                               "'module.'"));
  CHECK(take(renamed(before("model."))).count == 2);
}

TEST_CASE_METHOD(files_of_weights, "an average of weights is read") {
  int64_t averaged = 3;
  auto tensor = [](const tensor_for_file& each) {
    return named_tensor{"module." + each.name, "F32", each.shape,
                        std::as_bytes(std::span{each.numbers})};
  };
  CHECK(take({{"n_averaged", "I64", {}, std::as_bytes(std::span{&averaged, 1})},
              tensor(good[0]),
              tensor(good[1])},
             "")
          .count == 2);
}

TEST_CASE_METHOD(files_of_weights, "only what is trained must be finite") {
  torch::nn::Module net;
  net.register_parameter("a", at::zeros({2}));
  net.register_parameter("mask", at::zeros({2}), false);
  layout = flat_layout::from(net);
  flat = at::full({2}, 9, at::kFloat);
  frozen = at::zeros({2}, at::kFloat);
  auto infinity = std::numeric_limits<float>::infinity();
  tensor_for_file a{"a", {2}, {1, 2}}, mask{"mask", {2}, {0, -infinity}};
  CHECK(take({a, mask}).count == 2);
  CHECK(frozen[1].item<float>() == -infinity);
  a.numbers[0] = infinity;
  CHECK_THROWS_WITH(take({a, mask}),
                    ContainsSubstring("tensor a holds NaN or infinity"));
  std::vector<double> large{0, 1e300};
  CHECK_THROWS_WITH(
    take({{"a", "F32", {2}, std::as_bytes(std::span{good[0].numbers}.first(2))},
          {"mask", "F64", {2}, std::as_bytes(std::span{large})}},
         ""),
    ContainsSubstring("tensor mask holds NaN or infinity, or a number too "
                      "large"));
}

TEST_CASE_METHOD(files_of_weights,
                 "constants come from the file if it has them") {
  parameter_slot index;
  index.name = "index";
  index.dtype = "I64";
  index.shape = {2};
  layout.add_constants({index});
  frozen = at::zeros({static_cast<int64_t>(layout.frozen_count())});
  auto value = [&] {
    std::vector<int64_t> out(2);
    std::ranges::copy(
      flat_layout::constant_in(frozen, layout.constants().front()),
      std::as_writable_bytes(std::span{out}).begin());
    return out;
  };
  CHECK(take(good).count == 2);
  CHECK(value() == std::vector<int64_t>{0, 0});
  std::vector<named_tensor> all;
  for (const auto& each : good)
    all.push_back(
      {each.name, "F32", each.shape, std::as_bytes(std::span{each.numbers})});
  std::vector<int64_t> whole{5, 1};
  std::vector<uint8_t> small{7, 2};
  all.push_back({"index", "I64", {2}, std::as_bytes(std::span{whole})});
  CHECK(take(all, "").count == 3);
  CHECK(value() == whole);
  all.back() = {"index", "U8", {2}, std::as_bytes(std::span{small})};
  take(all, "");
  CHECK(value() == std::vector<int64_t>{7, 2});
  all.back().shape = {1, 2};
  CHECK_THROWS_WITH(take(all, ""),
                    ContainsSubstring("tensor index is 1x2, and that of net is "
                                      "2; --init-skip index leaves it out"));
  CHECK(take(all, "index").skipped == std::vector<std::string>{"index"});
}

TEST_CASE_METHOD(files_of_weights, "a pattern that matches nothing is wrong") {
  CHECK_THROWS_AS(take(good, "head.*,tail.*"), usage_error);
  CHECK_THROWS_WITH(take(good, "tail.*"),
                    ContainsSubstring("--init-skip tail.*: matches no tensor"));
}
