// troupe_bench_loop: what one would write with LibTorch alone. Independent
// loops on threads of their own train a network each, and nothing is shared: no
// parameter server could be faster. Writes samples a second, of all together,
// and page faults of a batch.

#include "actors/runtime/wall_clock.hpp"
#include "config/text/settings.hpp"
#include "data/dataset.hpp"
#include "data/sampling/permutation.hpp"
#include "models/engine/tensor_memory.hpp"
#include "models/network.hpp"

#include <ATen/Parallel.h>
#include <sys/resource.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace troupe;

struct request {
  std::string out;
  bool as_troupe = false; ///< Channels last, and large blocks are kept.
  size_t threads = 1;
  uint64_t batches = 0; ///< That are timed, of each loop; a quarter more come
                        ///< before.
  std::string network;
  config::data_settings data;
  uint64_t batch_size = 0;
};

constexpr const char* usage =
  "usage: troupe_bench_loop OUT plain|as_troupe THREADS BATCHES "
  "NETWORK DATASET BATCH_SIZE";

request parse(int argc, char** argv) {
  if (argc != 8)
    throw std::invalid_argument(usage);
  request out;
  out.out = argv[1];
  out.as_troupe = argv[2] == std::string{"as_troupe"};
  out.threads = std::stoul(argv[3]);
  out.batches = std::stoul(argv[4]);
  out.network = argv[5];
  out.data.dataset = argv[6];
  out.batch_size = std::stoul(argv[7]);
  return out;
}

class loop {
public:
  loop(const request& wish, uint64_t seed)
    : channels_last_(wish.as_troupe), batch_size_(wish.batch_size),
      train_(data::load_dataset(wish.data, seed).train),
      order_(seed, train_->size()),
      net_(models::make_network(wish.network, train_->classes(),
                                config::scalar_type::float32)) {
    models::initialise(*net_, seed);
    if (channels_last_)
      for (auto& x : net_->module().parameters())
        if (x.dim() == 4)
          x.set_data(x.contiguous(at::MemoryFormat::ChannelsLast));
    optimizer_ = std::make_unique<torch::optim::SGD>(
      net_->module().parameters(),
      torch::optim::SGDOptions(1e-3).momentum(0.9));
  }

  void run(uint64_t batches) {
    for (uint64_t i = 0; i < batches; ++i)
      step();
  }

private:
  void step() {
    if (first_ + batch_size_ > train_->size())
      first_ = 0, ++epoch_;
    auto batch =
      train_->gather(order_.lease_indices(epoch_, first_, batch_size_),
                     config::scalar_type::float32);
    first_ += batch_size_;
    auto inputs =
      channels_last_ ? with_channels_last(batch.inputs) : batch.inputs;
    optimizer_->zero_grad();
    auto loss = at::cross_entropy_loss(net_->forward(inputs), batch.targets);
    loss.backward();
    loss.item<float>();
    optimizer_->step();
  }

  static at::Tensor with_channels_last(const at::Tensor& x) {
    if (x.size(1) > 1)
      return x.contiguous(at::MemoryFormat::ChannelsLast);
    // One channel: the same memory with another layout.
    return x.as_strided(x.sizes(), {x.size(2) * x.size(3), 1, x.size(3), 1});
  }

  bool channels_last_;
  uint64_t batch_size_;
  std::shared_ptr<const data::dataset> train_;
  data::epoch_order order_;
  std::shared_ptr<models::network> net_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
  uint64_t epoch_ = 0;
  uint64_t first_ = 0;
};

double page_faults() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_minflt);
}

struct result {
  double rate = 0;   ///< Samples a second.
  double faults = 0; ///< Page faults of a batch.
};

result run(const request& wish) {
  double faults = 0;
  std::barrier begin{static_cast<std::ptrdiff_t>(wish.threads), [&]() noexcept {
                       faults = page_faults();
                     }};
  std::vector<double> rates(wish.threads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < wish.threads; ++i)
    threads.emplace_back([&, i] {
      at::set_num_threads(1);
      loop work{wish, i + 1};
      work.run(wish.batches / 4 + 1);
      begin.arrive_and_wait();
      wall_clock clock;
      work.run(wish.batches);
      rates[i] =
        static_cast<double>(wish.batches * wish.batch_size) / clock.elapsed();
    });
  result out;
  for (size_t i = 0; i < wish.threads; ++i) {
    threads[i].join();
    out.rate += rates[i];
  }
  out.faults =
    (page_faults() - faults) / static_cast<double>(wish.threads * wish.batches);
  return out;
}

} // namespace

int main(int argc, char** argv) {
  try {
    auto what = parse(argc, argv);
    if (what.as_troupe)
      models::keep_tensor_memory(size_t{4} << 30);
    auto found = run(what);
    std::ofstream{what.out} << found.rate << " " << found.faults << "\n";
    return 0;
  } catch (const std::exception& err) {
    std::fprintf(stderr, "troupe_bench_loop: %s\n", err.what());
    return 1;
  }
}
