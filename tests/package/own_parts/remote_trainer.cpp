// The program of PyTorch's tutorial of the RPC parameter server: a network that
// lives on the server, and trainers that call it, each with a loop of its own.
//
//   remote_trainer --role ps --mode remote-forward --workers 2
//   remote_trainer --role worker       (twice)
//   remote_trainer --role evaluator

#include <actors/own_loop/training.hpp>
#include <models/networks/registration.hpp>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <memory>
#include <stdexcept>

namespace {

class tutorial_net final : public troupe::models::network {
public:
  explicit tutorial_net(int64_t classes) : fc2_(32, classes) {
    module_.register_module("conv1", conv1_);
    module_.register_module("conv2", conv2_);
    module_.register_module("fc1", fc1_);
    module_.register_module("fc2", fc2_);
  }

  torch::nn::Module& module() override { return module_; }

  at::Tensor
  forward(const at::Tensor& images, const troupe::models::gradient_places&,
          const std::optional<troupe::models::dropout_key>&) override {
    auto x = torch::relu(conv1_(images));
    x = torch::max_pool2d(torch::relu(conv2_(x)), 2);
    return fc2_(torch::relu(fc1_(x.flatten(1))));
  }

private:
  torch::nn::Module module_{"tutorial_net"};
  torch::nn::Conv2d conv1_{torch::nn::Conv2dOptions(1, 8, 3)};
  torch::nn::Conv2d conv2_{torch::nn::Conv2dOptions(8, 16, 3)};
  torch::nn::Linear fc1_{16 * 12 * 12, 32};
  torch::nn::Linear fc2_;
};

const troupe::models::register_network net{
  {"tutorial_net", {1, 28, 28}, 10, 0, [](int64_t classes) {
     return std::make_shared<tutorial_net>(classes);
   }}};

void train(troupe::remote::training& run) {
  auto net = run.module();
  troupe::remote::distributed_optimizer optimizer{net.parameters()};
  int batches = 0;
  run.for_each_batch([&](troupe::remote::context& batch) {
    auto scores = net.forward(batch, batch.inputs());
    auto loss = torch::nll_loss(torch::log_softmax(scores, 1), batch.targets());
    batch.backward(loss);
    if (++batches % 10 == 1) {
      auto found = batch.gradients();
      if (found.size() != 8 || !found.at("fc2.bias").any().item<bool>())
        throw std::runtime_error("the gradients are not there");
      std::printf("training batch %d loss %.3f\n", batches,
                  loss.item<double>());
    }
    optimizer.step(batch);
  });
  std::printf("training complete!\n");
  if (auto accuracy = run.accuracy())
    std::printf("accuracy %.4f\n", *accuracy);
  std::fflush(stdout);
}

const troupe::remote::register_training mine{train};

} // namespace
