#pragma once
// Two workers and a parameter server, or loops with LibTorch alone, as child
// processes. Whoever compares them owns it; one thread.

#include "bench/child.hpp"
#include "bench/topics.hpp"
#include "bench/train/slow_node.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::bench {

/// What is trained.
struct workload {
  std::string name; ///< In the figures.
  std::string network;
  std::string dataset;
  uint64_t batch_size = 0;
  uint64_t gradients = 0; ///< Of both workers together.
  // The same for a quick run:
  uint64_t quick_batch_size = 0;
  uint64_t quick_gradients = 0;
  size_t rounds = 0;
  bool plain = false;  ///< Beside loops with glibc's malloc, too.
  bool faults = false; ///< Page faults, too.
  uint64_t workers = 2;
  std::vector<std::string> flags{};       ///< Further ones, for trainer_node.
  std::vector<std::string> environment{}; ///< Of nodes in processes: "X=1".
  uint64_t local_steps = 0; ///< Of a round; 0: each gradient is pushed.
  bool one_is_slow = false; ///< The last of the nodes in processes computes
                            ///< four times slower (slow_node.hpp).
};

/// LeNet on the digits, ResNet-18 at 32x32.
const workload& lenet_run();
const workload& resnet_run();

/// Tensors of 45 MB with little to compute.
workload wide_run(const std::filesystem::path& network);

/// Each call runs the processes to their end; throws `run_error` if one fails.
/// Rates are samples a second of both workers together.
class contenders {
public:
  contenders(const setting& how, const workload& job);

  uint64_t batch_size() const { return batch_size_; }

  uint64_t gradients_of_each() const;

  // -- Troupe -----------------------------------------------------------------

  double in_one_process(const std::string& policy) const;

  double in_processes(const std::string& policy) const;

  /// The median of the seconds for which a worker in processes waits for new
  /// weights after a gradient, the first fifth left out.
  double wait_for_weights(const std::string& policy) const;

  /// Each process is a worker and a shard.
  double as_peers(const std::string& policy) const;

  /// Page faults of a gradient. Two runs of different lengths are compared,
  /// which leaves the start of the process out.
  double faults_in_one_process(const std::string& policy) const;

  /// MiB that the parameter server had resident at most.
  double memory_of_server(const std::string& policy) const;

  // -- LibTorch alone ---------------------------------------------------------

  double loops_in_one_process(const char* program, const char* set_up) const;

  double faults_of_loops(const char* program, const char* set_up) const;

  double loops_in_processes(const char* program, const char* set_up) const;

  // -- both at once -----------------------------------------------------------

  /// CPU seconds of a step.
  struct cpu_costs {
    double troupe = 0;
    double loop = 0;
  };

  /// Of one worker in one process and of one loop, at the same time on the same
  /// core: so the machine is as fast for the one as for the other. Two runs of
  /// different lengths are compared, which leaves the start of both out.
  cpu_costs cpu_on_one_core(const std::string& policy, const char* program,
                            const char* set_up) const;

private:
  struct of_loops {
    double rate = 0;   ///< Samples a second.
    double faults = 0; ///< Page faults of a gradient.
  };

  of_loops one_loop_process(const char* program, const char* set_up) const;

  /// Nodes in processes of their own, the last of them perhaps slow.
  class nodes {
  public:
    explicit nodes(const workload& job);

    void start(const std::vector<std::string>& program, bool last);

    /// Waits for all; what the first has cost.
    cost wait();

  private:
    std::unique_ptr<slow_node> slow_; ///< Null: none is.
    const std::vector<std::string>& environment_;
    std::vector<std::unique_ptr<child>> all_;
  };

  cost serve(const std::string& policy, const std::filesystem::path& train_dir,
             const std::vector<std::string>& more = {}) const;

  uint64_t updates(const std::string& policy) const;

  std::vector<std::string> node(const std::string& policy,
                                const std::filesystem::path& train_dir) const;

  std::vector<std::string>
  simulated(const std::string& policy,
            const std::filesystem::path& train_dir) const;

  std::vector<std::string> loop(const char* program, const char* set_up,
                                const std::filesystem::path& out,
                                uint64_t threads) const;

  static of_loops read(const std::filesystem::path& file);

  const setting& how_;
  const workload& what_;
  uint64_t batch_size_;
  uint64_t gradients_;
};

/// What is measured beside others.
struct measured_run {
  std::string name;             ///< For the line of progress.
  std::function<double()> rate; ///< One run; samples a second.
};

/// Makes all runs in turn, `rounds` times. Returns the median of each.
std::vector<double> alternate(const std::string& title,
                              const std::vector<measured_run>& runs,
                              size_t rounds, report& out);

} // namespace troupe::bench
