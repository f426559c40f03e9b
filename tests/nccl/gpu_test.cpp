// The real NCCL on a real GPU: several ranks in this process, on one GPU when
// there is but one. Says why when it cannot run.

#include "messages/transport/nccl/succession.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

using namespace troupe::transport::nccl;

namespace {

constexpr int size = 3;

/// Seconds of the machine's clock.
double now() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

library_ptr real_library() {
  // Read by NCCL when it begins, in releases that know it.
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  auto result = library::load();
  if (!result.library)
    SKIP(result.why_not);
  return result.library;
}

/// Floats on a device.
class device_floats {
public:
  device_floats(library_ptr lib, int device, const std::vector<float>& from)
    : lib_(std::move(lib)), device_(device), count_(from.size()) {
    device_guard guard{*lib_, device_};
    void* memory = nullptr;
    REQUIRE(lib_->call().memory_take(&memory, bytes()) ==
            abi::cuda_status::success);
    memory_.reset(static_cast<float*>(memory));
    copy(memory_.get(), from.data());
  }

  ~device_floats() {
    device_guard guard{*lib_, device_};
    lib_->call().memory_give(memory_.release());
  }

  float* get() { return memory_.get(); }

  size_t count() const { return count_; }

  std::vector<float> read() {
    device_guard guard{*lib_, device_};
    std::vector<float> result(count_);
    copy(result.data(), memory_.get());
    return result;
  }

private:
  size_t bytes() const { return count_ * sizeof(float); }

  void copy(void* to, const void* from) {
    owned_stream stream{lib_};
    REQUIRE(
      lib_->call().memory_copy(to, from, bytes(), abi::copy_kind::by_address,
                               stream.get()) == abi::cuda_status::success);
    while (lib_->call().stream_query(stream.get()) ==
           abi::cuda_status::not_ready)
      std::this_thread::yield();
  }

  struct nothing {
    void operator()(float*) const {
      // nop
    }
  };

  library_ptr lib_;
  int device_;
  size_t count_;
  std::unique_ptr<float, nothing> memory_; ///< Given back by hand.
};

/// All ranks, polled in turn by one thread.
struct cast {
  explicit cast(library_ptr library) : lib(std::move(library)) {
    for (int rank = 0; rank < size; ++rank)
      ranks.push_back(std::make_unique<succession>(lib, patience{60, 10, 10}));
  }

  int device_of(int rank) const { return rank % lib->devices(); }

  succession& operator[](int rank) { return *ranks[static_cast<size_t>(rank)]; }

  void begin(epoch number) {
    abi::unique_id id;
    auto code = lib->call().get_unique_id(&id);
    INFO(lib->explain(code));
    REQUIRE(code == abi::result::success);
    for (int rank = 0; rank < size; ++rank)
      (*this)[rank].begin(number, to_bytes(id), rank, size, device_of(rank),
                          now());
  }

  /// Skips when NCCL does not let ranks share a GPU.
  void meet(epoch number) {
    begin(number);
    until([&] {
      bool all = true;
      for (auto& x : ranks)
        all = all && x->ready(number);
      return all || !failure(number).empty();
    });
    auto why = failure(number);
    if (!why.empty() && lib->devices() < size)
      SKIP("NCCL " + version_text(lib->version()) + " does not let " +
           std::to_string(size) + " ranks share " +
           std::to_string(lib->devices()) + " GPUs: " + why);
    REQUIRE(why == "");
  }

  std::string failure(epoch number) {
    for (auto& x : ranks)
      if (auto why = x->failure(number); !why.empty())
        return why;
    return "";
  }

  template <class F>
  bool until(F&& holds) {
    for (auto end = now() + 90; now() < end && !holds();) {
      for (auto& x : ranks)
        x->poll(now());
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
    return holds();
  }

  bool over(const std::vector<epoch_ticket>& tickets) {
    for (int rank = 0; rank < size; ++rank) {
      auto what = (*this)[rank].look(tickets[static_cast<size_t>(rank)]).what;
      if (what == progress::waiting || what == progress::stopping)
        return false;
    }
    return true;
  }

  library_ptr lib;
  std::vector<std::unique_ptr<succession>> ranks;
};

/// Whole numbers, whose sums are exact in any order.
std::vector<float> numbers(size_t count, int rank) {
  std::vector<float> result(count);
  for (size_t i = 0; i < count; ++i)
    result[i] = static_cast<float>((i * 7 + static_cast<size_t>(rank)) % 1000);
  return result;
}

constexpr size_t count = 11'250'000; // 45 MB

} // namespace

TEST_CASE("ranks on GPUs exchange, sum and publish the right bits") {
  cast all{real_library()};
  std::vector<std::unique_ptr<device_floats>> from, to;
  for (int rank = 0; rank < size; ++rank) {
    auto device = all.device_of(rank);
    from.push_back(
      std::make_unique<device_floats>(all.lib, device, numbers(count, rank)));
    to.push_back(std::make_unique<device_floats>(all.lib, device,
                                                 std::vector<float>(count)));
  }
  constexpr epoch first{1};
  all.meet(first);
  auto deadline = now() + 60;
  std::vector<epoch_ticket> tickets(size);

  SECTION("a push and a reply") {
    tickets[0] = all[0].submit(
      first,
      {send_to(1, from[0]->get(), count), receive_from(1, to[0]->get(), count)},
      deadline);
    tickets[1] = all[1].submit(
      first,
      {receive_from(0, to[1]->get(), count), send_to(0, from[1]->get(), count)},
      deadline);
    tickets[2] = all[2].submit(first, {}, deadline);
    REQUIRE(all.until([&] { return all.over(tickets); }));
    CHECK(all[0].look(tickets[0]).why == "");
    CHECK(to[0]->read() == numbers(count, 1));
    CHECK(to[1]->read() == numbers(count, 0));
  }
  SECTION("a synchronous step") {
    std::vector<float> sum(count);
    for (int rank = 0; rank < size; ++rank) {
      auto i = static_cast<size_t>(rank);
      all[rank].submit(
        first, {reduce_to(0, from[i]->get(), to[i]->get(), count)}, deadline);
      tickets[i] = all[rank].submit(
        first, {broadcast_from(0, from[i]->get(), count)}, deadline);
      auto own = numbers(count, rank);
      for (size_t k = 0; k < count; ++k)
        sum[k] += own[k];
    }
    REQUIRE(all.until([&] { return all.over(tickets); }));
    CHECK(all[0].look(tickets[0]).why == "");
    CHECK(to[0]->read() == sum);
    CHECK(from[2]->read() == numbers(count, 0));
  }
  SECTION("a rank that stops, and the next membership") {
    for (int rank = 1; rank < size; ++rank) {
      auto i = static_cast<size_t>(rank);
      tickets[i] = all[rank].submit(
        first, {receive_from(0, to[i]->get(), count)}, now() + 2);
    }
    all[0].end(first, "gone", now());
    REQUIRE(all.until([&] { return all.over(tickets); }));
    CHECK(all[1].look(tickets[1]).what == progress::failed);
    constexpr epoch second{2};
    all.meet(second);
    for (int rank = 0; rank < size; ++rank) {
      auto i = static_cast<size_t>(rank);
      tickets[i] = all[rank].submit(
        second, {broadcast_from(0, from[i]->get(), count)}, now() + 60);
    }
    REQUIRE(all.until([&] { return all.over(tickets); }));
    CHECK(from[1]->read() == numbers(count, 0));
  }
  // Nothing of it touches the memory any more when that goes.
  for (int rank = 0; rank < size; ++rank)
    all[rank].end(all[rank].current(), "the test is over", now());
  CHECK(all.until([&] {
    bool settled = true;
    for (auto& x : all.ranks)
      settled = settled && x->settled();
    return settled;
  }));
}
