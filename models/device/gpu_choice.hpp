#pragma once
// Chooses the GPU that a process uses. Two processes on one GPU slow each other
// down, and NCCL refuses ranks of one communicator that share one: so each
// process of a host takes a different one and keeps it until it ends. When none
// is left, one line says so. Called by main's thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe::models {

/// Who takes a GPU.
enum class gpu_owner : uint8_t {
  server,               ///< The first.
  worker_of_gpu_server, ///< The next ones; the first comes last.
  worker                ///< The first that is free: its server has none.
};

struct gpu_wish {
  int devices = 1; ///< Visible to the process.
  gpu_owner whose = gpu_owner::worker;
  /// Its number among the processes that a launcher has started on this host;
  /// empty: not given.
  std::string local_rank;
  std::string visible; ///< CUDA_VISIBLE_DEVICES; empty: all.
  bool shared = false; ///< NCCL_MULTI_RANK_GPU_ENABLE: sharing is allowed.
  std::string rank_variable = "LOCAL_RANK"; ///< That says `local_rank`.
};

/// The wish of this process, from its environment.
gpu_wish wish_of_process(int devices, gpu_owner whose);

/// Suitable devices, the best first; or a line that says why there is none.
std::variant<std::vector<int>, std::string> suitable_gpus(const gpu_wish& wish);

/// A GPU that no other process of this user has taken.
struct gpu {
  int device = 0;
  std::shared_ptr<const void> claim; ///< Given back with the last copy.
};

/// Takes the first suitable GPU that is free; otherwise a line that says what
/// to do.
std::variant<gpu, std::string> take_gpu(const gpu_wish& wish);

/// The name of a visible device among those of all hosts. The same GPU has the
/// same name in all processes.
std::string gpu_of_all(int device);

} // namespace troupe::models
