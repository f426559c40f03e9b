// troupe_bench_loop: what one would write with LibTorch alone. Independent
// loops on threads of their own train a network each, and nothing is shared: no
// parameter server could be faster. Writes samples a second, of all together.

#include "actors/clock/wall_clock.hpp"
#include "config/settings.hpp"
#include "data/dataset.hpp"
#include "data/permutation.hpp"
#include "models/network.hpp"

#include <torch/torch.h>

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
  bool channels_last = false;
  size_t threads = 1;
  uint64_t batches = 0; ///< That are timed, of each loop; a quarter more come
                        ///< before.
};

constexpr const char* usage =
  "usage: troupe_bench_loop OUT contiguous|channels_last THREADS BATCHES";

request parse(int argc, char** argv) {
  if (argc != 5)
    throw std::invalid_argument(usage);
  return {argv[1], argv[2] == std::string{"channels_last"}, std::stoul(argv[3]),
          std::stoul(argv[4])};
}

class loop {
public:
  loop(const request& what, uint64_t seed)
    : channels_last_(what.channels_last),
      train_(data::load_dataset({}, seed).train), order_(seed, train_->size()),
      net_(models::make_network("lenet", train_->classes(),
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
  static constexpr uint64_t batch_size = 64;

  void step() {
    if (first_ + batch_size > train_->size())
      first_ = 0, ++epoch_;
    auto batch =
      train_->gather(order_.lease_indices(epoch_, first_, batch_size),
                     config::scalar_type::float32);
    first_ += batch_size;
    auto inputs = batch.inputs;
    if (channels_last_) // One channel: the same memory, told otherwise.
      inputs =
        inputs.as_strided(inputs.sizes(), {inputs.size(2) * inputs.size(3), 1,
                                           inputs.size(3), 1});
    optimizer_->zero_grad();
    auto loss = at::cross_entropy_loss(net_->forward(inputs), batch.targets);
    loss.backward();
    loss.item<float>();
    optimizer_->step();
  }

  bool channels_last_;
  std::shared_ptr<const data::dataset> train_;
  data::epoch_order order_;
  std::shared_ptr<models::network> net_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
  uint64_t epoch_ = 0;
  uint64_t first_ = 0;
};

/// Samples a second.
double run(const request& what) {
  std::barrier begin{static_cast<std::ptrdiff_t>(what.threads)};
  std::vector<double> rates(what.threads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < what.threads; ++i)
    threads.emplace_back([&, i] {
      at::set_num_threads(1);
      loop work{what, i + 1};
      work.run(what.batches / 4 + 1);
      begin.arrive_and_wait();
      wall_clock clock;
      work.run(what.batches);
      rates[i] = static_cast<double>(what.batches) * 64 / clock.elapsed();
    });
  double sum = 0;
  for (size_t i = 0; i < what.threads; ++i) {
    threads[i].join();
    sum += rates[i];
  }
  return sum;
}

} // namespace

int main(int argc, char** argv) {
  try {
    auto what = parse(argc, argv);
    auto rate = run(what);
    std::ofstream{what.out} << rate << "\n";
    return 0;
  } catch (const std::exception& err) {
    std::fprintf(stderr, "troupe_bench_loop: %s\n", err.what());
    return 1;
  }
}
