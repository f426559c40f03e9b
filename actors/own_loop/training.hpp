#pragma once
// Lets a program train with a loop of its own, as one writes it against
// PyTorch's RPC parameter server, while the network lives on the server:
//
//   void train(troupe::remote::training& run) {
//     auto net = run.module();
//     troupe::remote::distributed_optimizer optimizer{net.parameters()};
//     run.for_each_batch([&](troupe::remote::context& batch) {
//       auto scores = net.forward(batch, batch.inputs());
//       auto loss = torch::cross_entropy_loss(scores, batch.targets());
//       batch.backward(loss);
//       optimizer.step(batch);
//     });
//     if (auto found = run.accuracy())
//       std::printf("accuracy %.1f %%\n", 100 * *found);
//   }
//
//   const troupe::remote::register_training mine{train};
//
// The function runs once in each worker, on a thread of its own; all else of
// the program is trainer_node: `--role ps` has the network, its optimiser and
// its policy, and `--role evaluator` scores. It needs `--mode remote-forward`.
//
// Gradients gather in a context for each batch, never in a `.grad` that
// trainers share (pytorch/examples#780). docs/migrating.md has the calls side
// by side.
//
// The objects belong to the function's thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::remote {

class server_link; // to the network and the server, wherever they are

/// The batch of a context is no longer wanted: the policy has cancelled it, the
/// connection is lost, or the run is over. `for_each_batch` catches it.
class cancelled : public std::exception {
public:
  const char* what() const noexcept override;
};

/// A handle of a parameter that lives with its owner.
struct remote_parameter {
  std::string name; ///< As in the state dict.
  std::vector<int64_t> sizes;
  std::optional<uint32_t> server; ///< Rank of its shard; nothing: the worker.
  uint64_t first = 0;             ///< Of its elements in the flat weights.

  bool operator==(const remote_parameter&) const = default;
};

/// One batch, the weights on which it is computed, and the gradient that
/// gathers for it at the owners of the parameters. Without `step` it is given
/// back when the body of the loop ends, and another worker gets its samples.
class context {
public:
  context(std::shared_ptr<server_link> link, uint64_t id, at::Tensor inputs,
          at::Tensor targets);

  ~context();

  context(const context&) = delete;
  context& operator=(const context&) = delete;

  /// [n, C, H, W], normalised.
  const at::Tensor& inputs() const { return inputs_; }

  /// [n], int64, in [0, classes).
  const at::Tensor& targets() const { return targets_; }

  /// Computes the gradients of all parameters.
  /// @param loss A scalar that depends on what `forward` has given: the mean
  /// over the batch, as the server weighs a gradient by its samples.
  /// @throws cancelled; usage_error before `forward`, or a second time.
  void backward(const at::Tensor& loss);

  /// The gradient of each parameter, by name: brought from its owner, to be
  /// looked at. @throws cancelled; usage_error before `backward`.
  std::map<std::string, at::Tensor> gradients() const;

  /// The values of a parameter on which this batch is computed, brought from
  /// its owner. @throws cancelled; usage_error before `forward`.
  at::Tensor to_here(const remote_parameter& parameter) const;

private:
  friend class remote_module;
  friend class distributed_optimizer;

  enum class state : uint8_t { fresh, forward, backward, stepped };

  at::Tensor read(const remote_parameter& parameter, bool gradient) const;

  std::shared_ptr<server_link> link_;
  uint64_t id_;
  at::Tensor inputs_, targets_;
  at::Tensor scores_;
  double loss_ = 0;
  state state_ = state::fresh;
};

/// A handle of the network.
class remote_module {
public:
  explicit remote_module(std::shared_ptr<server_link> link);

  /// Has the network compute these samples with the weights of the context, on
  /// the machines of its owners; once for each context.
  /// @param inputs As many samples as the context has.
  /// @return [n, classes]; gradients that reach it go on at the owners.
  /// @throws cancelled; usage_error for a second pass or another number.
  at::Tensor forward(context& in, const at::Tensor& inputs) const;

  const std::vector<remote_parameter>& parameters() const;

private:
  std::shared_ptr<server_link> link_;
};

/// Sends gradients into the server's optimiser, which `--optimizer` and `--lr`
/// of the run describe.
class distributed_optimizer {
public:
  /// @param parameters All of the network.
  explicit distributed_optimizer(std::vector<remote_parameter> parameters);

  /// Hands the gradient of the context to the policy, which decides when it
  /// counts. Does not wait for that: the next batch does.
  /// @throws cancelled; usage_error before `backward`, or if a parameter is
  /// missing.
  void step(context& of) const;

private:
  std::vector<remote_parameter> parameters_;
};

/// One worker's part of the run.
class training {
public:
  explicit training(std::shared_ptr<server_link> link);

  remote_module module() const;

  /// Calls `body` for each batch that this worker gets, until the run is over
  /// and its last version has been scored.
  void for_each_batch(const std::function<void(context&)>& body);

  /// The share of the test set that the run's last version gets right. Nothing
  /// before the end, or if the run has no evaluator.
  std::optional<double> accuracy() const;

private:
  std::shared_ptr<server_link> link_;
};

using training_function = std::function<void(training&)>;

/// Has the workers of this program train with a function: define one such
/// object in a source file. An exception of the function ends its worker with
/// one line, and so does a return before the run is over.
class register_training {
public:
  explicit register_training(training_function f);
};

/// The function that this program registers; empty if there is none.
const training_function& registered_training();

/// Whether a function is running in this process.
bool is_training();

} // namespace troupe::remote
