// The third-party libraries agree with each other: one program includes, links
// and runs all of them, and the headers are those of the libraries.

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <catch2/catch_test_macros.hpp>
#include <google/protobuf/stubs/common.h>
#include <google/protobuf/wrappers.pb.h>

TEST_CASE("tensors compute and differentiate") {
  auto x = at::full({3}, 2.0F).requires_grad_();
  (x * x).sum().backward();
  CHECK(x.grad().sum().item<float>() == 12.0F);
}

TEST_CASE("actors answer") {
  caf::core::init_global_meta_objects();
  caf::actor_system_config config;
  caf::actor_system system{config};
  auto doubler = system.spawn([]() -> caf::behavior {
    return {[](int32_t value) {
      return 2 * value;
    }};
  });
  caf::scoped_actor self{system};
  int32_t answer = 0;
  self->request(doubler, std::chrono::seconds{10}, int32_t{21})
    .receive([&](int32_t value) { answer = value; }, [](const caf::error&) {});
  CHECK(answer == 42);
}

TEST_CASE("the system's protobuf wins over the one beside LibTorch's headers") {
  // Aborts when header and library differ.
  GOOGLE_PROTOBUF_VERIFY_VERSION;
  CHECK(GOOGLE_PROTOBUF_VERSION >= 3021000);
  google::protobuf::Int64Value value;
  value.set_value(7);
  google::protobuf::Int64Value copy;
  REQUIRE(copy.ParseFromString(value.SerializeAsString()));
  CHECK(copy.value() == 7);
}
