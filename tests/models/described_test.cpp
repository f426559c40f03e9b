// Networks that a safetensors file describes.

#include "config/text/failure.hpp"
#include "config/values/script.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/segments.hpp"
#include "models/network.hpp"
#include "models/networks/described.hpp"
#include "models/networks/registry.hpp"
#include "models/storage/safetensors.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <torch/torch.h>

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::models;
using Catch::Matchers::EndsWith;

namespace {

struct part {
  std::string name;
  at::Tensor value;
  std::string dtype = "F32";
};

struct written {
  explicit written(const std::vector<part>& parts,
                   const tensor_metadata& metadata = {}) {
    std::vector<named_tensor> all;
    for (const auto& [name, value, dtype] : parts)
      all.push_back({name,
                     dtype,
                     value.sizes().vec(),
                     {static_cast<const std::byte*>(value.const_data_ptr()),
                      value.nbytes()}});
    output_file out{file};
    write_safetensors(out, all, metadata);
    out.finish();
  }

  std::string network() const { return "weights:" + file; }

  /// What the line says after the file's name.
  std::string refusal() const {
    auto line =
      troupe::test::error_line<run_error>([&] { load_description(file); });
    return line.substr(file.size());
  }

  troupe::testing::temporary_folder folder;
  std::string file = (folder / "net.safetensors").string();
};

at::Tensor ramp(std::vector<int64_t> shape, double first = 0) {
  auto count = 1;
  for (auto extent : shape)
    count *= static_cast<int>(extent);
  return torch::arange(first, first + count, torch::kFloat).view(shape);
}

std::vector<part> usual() {
  return {{"body.0.weight", ramp({3, 2})},
          {"body.1.weight", ramp({3}, 10)},
          {"body.1.running_mean", ramp({3}, 20)},
          {"body.1.batches", torch::zeros({}, torch::kLong), "I64"},
          {"head.weight", ramp({2, 3}, 30)},
          {"scale", ramp({1}, 40)}};
}

const tensor_metadata about_usual{
  {"troupe.statistics", "body.1.running_mean"},
  {"troupe.frozen", "head.weight"},
  {"troupe.shared", "tail.weight = body.0.weight"}};

std::vector<std::string> names_of(const std::vector<parameter_slot>& slots) {
  std::vector<std::string> out;
  for (const auto& slot : slots)
    out.push_back(slot.name);
  return out;
}

using names = std::vector<std::string>;

} // namespace

TEST_CASE("a described network has the tensors of the file, by kind") {
  written on{usual(), about_usual};
  auto net = make_network(on.network(), 0, config::scalar_type::float32);
  auto layout = flat_layout::from(net->module());
  // In the order of the file, where wide types come first: body.1 begins there.
  CHECK(names_of(layout.slots()) ==
        names{"scale", "body.1.weight", "body.0.weight"});
  CHECK(names_of(layout.statistics()) == names{"body.1.running_mean"});
  CHECK(names_of(layout.frozen()) == names{"head.weight"});
  for (const auto& slot : layout.state_dict())
    CHECK(slot.same_as == (slot.name == "tail.weight" ? "body.0.weight" : ""));
  CHECK(layout.state_dict().size() == 7);
}

TEST_CASE("a running statistic and a counter may have several names") {
  auto metadata = about_usual;
  metadata["troupe.shared"] += "\ntail.1.running_mean = body.1.running_mean"
                               "\ntail.1.batches = body.1.batches";
  written on{usual(), metadata};
  auto net = make_network(on.network(), 0, config::scalar_type::float32);
  auto layout = flat_layout::from(net->module());
  CHECK(names_of(layout.statistics()) == names{"body.1.running_mean"});
  CHECK(names_of(layout.frozen()) == names{"head.weight"});
  size_t found = 0;
  for (const auto& slot : layout.state_dict())
    if (slot.name.starts_with("tail.1.")) {
      ++found;
      CHECK(slot.same_as == "body.1." + slot.name.substr(7));
      CHECK_FALSE(slot.frozen);
      CHECK(slot.kind != tensor_kind::parameter);
    }
  CHECK(found == 2);
}

TEST_CASE("what is carried and what is constant may be told apart from what "
          "earlier releases said of it") {
  auto metadata = about_usual;
  metadata["troupe.carried"] = "head.weight";
  metadata["troupe.constant"] = "body.1.running_mean";
  written on{usual(), metadata};
  auto net = make_network(on.network(), 0, config::scalar_type::float32);
  auto layout = flat_layout::from(net->module());
  CHECK(names_of(layout.statistics()) == names{"head.weight"});
  CHECK(names_of(layout.frozen()) == names{"body.1.running_mean"});
  CHECK(digest_of_network(on.network()) ==
        digest_of_network(written{usual(), about_usual}.network()));
}

TEST_CASE("its first weights are those of the file") {
  written on{usual(), about_usual};
  auto net = make_network(on.network(), 0, config::scalar_type::float32);
  initialise(*net, 7);
  auto layout = flat_layout::from(net->module());
  auto flat = gather(net->module(), layout);
  auto frozen = gather_frozen(net->module(), layout);
  for (const auto& [name, value, dtype] : usual())
    for (const auto& slot : layout.state_dict())
      if (slot.name == name && slot.kind != tensor_kind::counter)
        CHECK(torch::equal(layout.view({flat, frozen}, slot), value));
}

TEST_CASE("a described network may have another type than its file") {
  written on{usual(), about_usual};
  auto net = make_network(on.network(), 0, config::scalar_type::float64);
  initialise(*net, 7);
  auto layout = flat_layout::from(net->module());
  CHECK(layout.dtype() == config::scalar_type::float64);
  CHECK(gather(net->module(), layout)[0].item<double>() == 40);
}

TEST_CASE("descriptions are told apart by all but their values") {
  auto digest = [](const std::vector<part>& parts,
                   const tensor_metadata& metadata = about_usual) {
    return digest_of_network(written{parts, metadata}.network());
  };
  auto first = digest(usual());
  CHECK(first.size() == 64);
  auto other = usual();
  other[0].value = ramp({3, 2}, 7);
  CHECK(digest(other) == first);
  auto more = about_usual;
  more["made_by"] = "somebody";
  CHECK(digest(usual(), more) == first);
  other[0].value = ramp({2, 3});
  CHECK(digest(other) != first);
  other = usual();
  other[0].name = "body.0.weights";
  CHECK(digest(other, {}) != digest(usual(), {}));
  more = about_usual;
  more["troupe.frozen"] = "scale";
  CHECK(digest(usual(), more) != first);
}

TEST_CASE("a file that describes no network is refused") {
  std::string begin = ": describes no network: ";
  CHECK(written{{{"x", torch::zeros({2}, torch::kHalf), "F16"}}}.refusal() ==
        begin + "tensor x is F16; F32 and F64 are trained, and I64 counts");
  CHECK(written{{{"x", ramp({2})}}, {{"troupe.statistics", "x"}}}.refusal() ==
        begin + "it has no tensor that could be trained");
  CHECK(written{{{"x", ramp({2})}}, {{"troupe.frozen", "y"}}}.refusal() ==
        begin + "troupe.frozen names 'y', which is not among its tensors");
  CHECK(written{{{"x", ramp({2})}}, {{"troupe.shared", "y"}}}.refusal() ==
        begin + "troupe.shared has the line 'y', and not 'NAME = NAME OF A "
                "TENSOR'");
  CHECK(written{{{"x", ramp({2})}}, {{"troupe.shared", "y = z"}}}.refusal() ==
        begin + "troupe.shared has the line 'y = z', and not 'NAME = NAME OF "
                "A TENSOR'");
  CHECK(written{{{"a.", ramp({2})}}}.refusal() ==
        begin + "a tensor cannot be named 'a.'");
}

TEST_CASE("a described network cannot compute") {
  written on{usual()};
  auto net = load_description(on.file);
  auto line = troupe::test::error_line<run_error>([&] {
    net->forward(ramp({1, 2}), {}, {});
  });
  CHECK_THAT(line, EndsWith(": is a description, and cannot compute"));
}

TEST_CASE("a description gives parameters numbers of their own") {
  auto about = about_usual;
  auto& groups = about["troupe.groups"];
  groups = "body.0.weight = lr=0.01 weight-decay=0\nscale = lr=3";
  written on{usual(), about};
  config::training_settings settings;
  settings.network = on.network();
  auto layout = layout_of(settings, 0);
  for (const auto& slot : layout.slots())
    CHECK(config::to_string(slot.group) == (slot.name == "scale" ? "lr=3"
                                            : slot.name == "body.0.weight"
                                              ? "lr=0.01 weight-decay=0"
                                              : ""));
  CHECK(digest_of_description(on.file) !=
        digest_of_description(written{usual(), about_usual}.file));
  groups = "body.2.weight = lr=0.01";
  CHECK_THAT(written(usual(), about).refusal(),
             EndsWith("troupe.groups has the line 'body.2.weight = lr=0.01', "
                      "and not 'NAME OF A TENSOR = NUMBERS'"));
  groups = "scale = rate=0.01";
  CHECK_THAT(
    written(usual(), about).refusal(),
    EndsWith("troupe.groups has the line 'scale = rate=0.01': "
             "'rate=0.01' must be lr=X, weight-decay=X or momentum=X"));
}

namespace {

/// With an index and a mask beside what is trained, and a frozen layer of
/// another type.
std::vector<part> with_constants() {
  auto out = usual();
  out.push_back({"index", torch::arange(5), "I64"});
  out.push_back({"body.mask", torch::ones({3}, torch::kBool), "BOOL"});
  out.push_back({"old.weight", torch::ones({2, 1}, torch::kDouble), "F64"});
  out.push_back({"none", torch::empty({0, 4}, torch::kByte), "U8"});
  return out;
}

const tensor_metadata about_constants{
  {"troupe.statistics", "body.1.running_mean"},
  {"troupe.frozen", "head.weight\nindex\nbody.mask\nold.weight\nnone"},
  {"troupe.shared", "tail.weight = body.0.weight\nother.mask = body.mask"}};

} // namespace

TEST_CASE("frozen tensors of other types are constants with their own") {
  written on{with_constants(), about_constants};
  config::training_settings settings;
  settings.network = on.network();
  auto layout = layout_of(settings, 0);
  auto plain = flat_layout::from(load_description(on.file)->module());
  CHECK(layout.count() == plain.count());
  CHECK(names_of(layout.frozen()) == names{"head.weight"});
  auto all = draw_weights(settings, 0);
  CHECK(static_cast<uint64_t>(all.frozen.numel()) == layout.frozen_count());
  CHECK(layout.fits_frozen(all.frozen));
  CHECK(torch::equal(layout.view(all, layout.frozen()[0]), ramp({2, 3}, 30)));
  CHECK(layout.constants().size() == 4);
  for (const auto& slot : layout.constants())
    for (const auto& [name, value, dtype] : with_constants())
      if (name == slot.name) {
        CHECK(slot.dtype == dtype);
        CHECK(slot.offset % 8 == 0);
        auto bytes = flat_layout::constant_in(all.frozen, slot);
        REQUIRE(bytes.size() == value.nbytes());
        CHECK(
          (bytes.empty() || std::memcmp(bytes.data(), value.const_data_ptr(),
                                        bytes.size()) == 0));
      }
  const auto& last = layout.state_dict().back();
  CHECK(last.name == "other.mask");
  CHECK(last.same_as == "body.mask");
  CHECK(last.kind == tensor_kind::constant);
  // The run of an earlier release has the same digest, so it can go on.
  CHECK(digest_of_description(on.file) ==
        digest_of_description(written{usual(), about_usual}.file));
}

TEST_CASE("names in a description may hold anything") {
  auto about = about_usual;
  about["troupe.frozen"] = "\"a\\nb\"";
  about["troupe.shared"] = "\"x = y\" = \"q\\\"z\"\nplain name, too = scale";
  auto parts = usual();
  parts.push_back({"a\nb", ramp({2}, 50)});
  parts.push_back({"q\"z", ramp({2}, 60)});
  parts.push_back({"\"odd", ramp({2}, 70)});
  written on{parts, about};
  auto net = make_network(on.network(), 0, config::scalar_type::float32);
  auto layout = flat_layout::from(net->module());
  CHECK(names_of(layout.frozen()) == names{"a\nb"});
  std::map<std::string, std::string> ties;
  for (const auto& slot : layout.state_dict())
    if (!slot.same_as.empty())
      ties.emplace(slot.name, slot.same_as);
  CHECK(ties == std::map<std::string, std::string>{
                  {"x = y", "q\"z"}, {"plain name, too", "scale"}});
}

TEST_CASE("a description comes to another process without its values") {
  written on{with_constants(), about_constants};
  auto sent = description_without_values(on.network());
  CHECK(sent.head.size() < sent.bytes);
  auto there = keep_description(sent, "net");
  CHECK(there == keep_description(sent, "net"));
  CHECK(config::short_name(there) == "net");
  CHECK(digest_of_network(there) == digest_of_network(on.network()));
  config::training_settings here, elsewhere;
  here.network = on.network();
  elsewhere.network = there;
  CHECK(layout_of(here, 0) == layout_of(elsewhere, 0));
  CHECK(description_without_values("lenet").head.empty());
  CHECK_THROWS_AS(layout_of(
                    [&] {
                      auto out = here;
                      out.network = keep_description({"no header", 9}, "bad");
                      return out;
                    }(),
                    0),
                  run_error);
}
