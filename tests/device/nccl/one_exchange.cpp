// GPUs send each other numbers, add them up and gather them on the fake device,
// each thing as late and each memory reused as early as is allowed; prints how
// many times something waited for another. Ends with 0 if all was in order.

#include "tests/device/nccl/gpus.hpp"

#include <ATen/ops/full.h>

#include <cstdio>
#include <exception>
#include <future>
#include <utility>
#include <vector>

using namespace troupe;
using namespace troupe::test;
using namespace troupe::transport;

namespace {

void demand(bool holds, const char* line) {
  if (!holds)
    throw std::runtime_error(line);
}

template <class T>
struct answer {
  std::shared_ptr<std::promise<T>> promise =
    std::make_shared<std::promise<T>>();

  std::function<void(T)> told() {
    return [to = promise](T x) {
      to->set_value(std::move(x));
    };
  }

  T get() { return promise->get_future().get(); }
};

struct exchange {
  exchange() {
    auto lib = fake_library();
    for (int i = 0; i < 2; ++i)
      networks[i] =
        models::nccl::make_network(lib, i, "gpu " + std::to_string(i));
    auto id = networks[0]->make_id();
    for (int i = 0; i < 2; ++i)
      groups[i] = networks[i]->open(id, i, 2, {5, 5, 1}, {});
  }

  /// Numbers that a stream of the device computes; nobody waits for it.
  static payload computed(int device, float value, int64_t size) {
    c10::StreamGuard guard{stream_on(device)};
    auto flat = at::full({size}, value - 1,
                         at::TensorOptions{at::kFloat}.device(gpu(device)))
                  .add_(1);
    return {{element_type::float32, static_cast<uint64_t>(size)},
            std::make_shared<device_tensor>(flat, nullptr)};
  }

  /// Reads what has arrived by a stream of its device; the result is looked at
  /// in the end.
  void read(const payload& there, float value) {
    demand(there && there.device() != nullptr, "nothing arrived");
    auto by = stream_on(there.device()->device());
    c10::StreamGuard guard{by};
    auto flat = static_cast<const device_tensor*>(there.device())->read();
    results.push_back({flat + 0, value, by});
  }

  /// To rank 1. The memory that was sent is written again at once, by a stream
  /// that has waited for nothing.
  void send_and_overwrite(float value) {
    auto sent_from = computed(0, value, 2000);
    auto* tensor = static_cast<const device_tensor*>(sent_from.device());
    at::Tensor flat;
    {
      c10::StreamGuard guard{stream_on(0)};
      flat = tensor->read();
    }
    answer<bool> sent;
    answer<payload> there;
    groups[1]->receive(0, shape, there.told());
    groups[0]->send(1, std::move(sent_from), sent.told());
    demand(sent.get(), "nothing was sent");
    {
      c10::StreamGuard guard{stream_on(0)};
      flat.zero_();
    }
    read(there.get(), value);
  }

  void sum_and_gather() {
    gpu_cut cut{element_type::float32, {40, 24}};
    answer<payload> ranges[2], whole[2];
    for (int i = 0; i < 2; ++i)
      groups[i]->sum({{computed(i, 6, 64), .5}}, cut, summed_as::bfloat16,
                     ranges[i].told());
    for (int i = 0; i < 2; ++i) {
      auto part = ranges[i].get();
      read(part, 6);
      groups[i]->gather(part, cut, whole[i].told());
    }
    for (auto& each : whole)
      read(each.get(), 6);
  }

  void look_at_results() {
    for (const auto& [flat, value, by] : results) {
      c10::StreamGuard guard{by};
      demand(at::equal(flat.to(at::kCPU),
                       at::full({flat.numel()}, value, at::kFloat)),
             "other numbers have arrived");
    }
  }

  struct result {
    at::Tensor flat;
    float value;
    c10::Stream by;
  };
  std::vector<result> results;
  gpu_network_ptr networks[2];
  gpu_group_ptr groups[2]; ///< End before their networks.
};

} // namespace

int main() try {
  {
    exchange all;
    for (int i = 0; i < 3; ++i)
      all.send_and_overwrite(static_cast<float>(i));
    all.sum_and_gather();
    all.look_at_results();
  }
  auto* dependencies =
    reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "fake_cuda_dependencies"));
  std::printf("%d\n", dependencies());
} catch (const std::exception& err) {
  std::fprintf(stderr, "%s\n", err.what());
  return 1;
}
