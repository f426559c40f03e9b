// Memory of a device that a worker shares with the process that computes for
// it: the trial of it, and the blocks there.

#include "actors/runtime/tensor_payload.hpp"
#include "actors/user_process/gpu_trial.hpp"
#include "config/text/failure.hpp"
#include "models/device/shared_gpu_memory.hpp"
#include "models/layout/flat_pool.hpp"
#include "tests/device/open_device.hpp"

#include <ATen/ops/fill.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <dlfcn.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <string>

using namespace troupe;
using namespace troupe::external;
using namespace troupe::test;
using Catch::Matchers::ContainsSubstring;
using kind = process_frame_kind;

namespace {

/// A worker's line, and the other end of it.
struct line_pair {
  line_pair() {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    worker = std::make_shared<process_line>(transport::descriptor{ends[0]});
    process = std::make_shared<process_line>(transport::descriptor{ends[1]});
    open_device();
  }

  /// Reads the frame of the trial. @returns why there is no memory to try.
  std::string read_trial() const {
    auto frame = process->receive();
    REQUIRE(frame.has_value());
    REQUIRE(frame->kind == kind::trial);
    body_reader body{std::as_bytes(std::span{frame->body})};
    return body.text();
  }

  void answer(const std::string& why_not, kind type = kind::tried) const {
    process->send(type, 0, body_writer{}.put(why_not).take_bytes());
  }

  process_line_ptr worker;
  process_line_ptr process;
};

/// The address of a device, by which other processes know it. CUDA's runtime is
/// the one that is opened; LibTorch has parts of another inside.
std::string address_of(c10::Device where) {
  auto* opened = dlopen(std::getenv("TROUPE_CUDA_LIBRARY"), RTLD_LAZY);
  REQUIRE(opened != nullptr);
  auto* ask = reinterpret_cast<int (*)(char*, int, int)>(
    dlsym(opened, "cudaDeviceGetPCIBusId"));
  REQUIRE(ask != nullptr);
  char text[64] = "";
  REQUIRE(ask(text, sizeof text, where.index()) == 0);
  return text;
}

} // namespace

TEST_CASE("a process that opens memory of its GPU gets its blocks there") {
  line_pair on;
  on.answer("");
  auto memory = try_gpu(*on.worker, address_of(last_device()));
  CHECK(on.read_trial().empty());
  REQUIRE(memory);
  CHECK(memory->device() == last_device());
}

TEST_CASE("a process that cannot open memory of its GPU gets none") {
  line_pair on;
  on.answer("operation not supported");
  CHECK_FALSE(try_gpu(*on.worker, address_of(last_device())));
  CHECK(on.read_trial().empty());
}

TEST_CASE("a process is told why there is no memory of its GPU to try",
          "[fake]") {
  line_pair on;
  SECTION("CUDA shares none") {
    setenv("FAKE_CUDA_REFUSES", "share", 1);
    CHECK_FALSE(try_gpu(*on.worker, address_of(last_device())));
    unsetenv("FAKE_CUDA_REFUSES");
    CHECK(on.read_trial() ==
          "sharing memory of the GPU failed: operation not supported");
  }
  SECTION("this process does not see that GPU") {
    CHECK_FALSE(try_gpu(*on.worker, "0000:17:00.0"));
    CHECK(on.read_trial() ==
          "looking for the GPU 0000:17:00.0 failed: invalid device ordinal");
  }
}

TEST_CASE("a process that does not answer the trial is refused") {
  line_pair on;
  on.answer("", kind::paused);
  CHECK_THROWS_AS(try_gpu(*on.worker, address_of(last_device())), run_error);
}

TEST_CASE("what is copied to shared memory of a GPU is there at once") {
  auto where = last_device();
  auto memory = std::make_shared<models::shared_gpu_memory>(where);
  constexpr int64_t count = 1000;
  models::flat_pool pool{count, config::scalar_type::float32, where, memory};
  auto numbers = at::randn({count});
  auto block = pool.take_tensor();
  const auto* address = block.const_data_ptr();
  SECTION("from the host") {
    write_numbers(block, to_payload(numbers));
  }
  SECTION("from the GPU itself") {
    write_numbers(block, to_payload(numbers.to(where)));
  }
  auto there = memory->find(static_cast<const std::byte*>(address));
  REQUIRE(there.has_value());
  CHECK(there->bytes >= count * sizeof(float));
  auto sent = to_payload(std::move(block));
  CHECK(sent.device_address() == address);
  CHECK(to_tensor(sent).equal(numbers));
  // What reads it is over before the memory is used again, on any stream.
  auto sum = to_tensor(sent, where).sum();
  sent = {};
  auto next = pool.take_tensor();
  CHECK(next.const_data_ptr() == address);
  c10::impl::VirtualGuardImpl device{where.type()};
  c10::StreamGuard other{device.getStreamFromGlobalPool(where)};
  next.fill_(1);
}
