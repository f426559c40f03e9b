#pragma once
// Chooses the GPU that a process uses. NCCL refuses ranks of one communicator
// that share a GPU, so each process of a host takes a different one and keeps
// it until it ends. When none is left, one line says so. Called once per
// process, by main's thread.

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe::transport::nccl {

struct gpu_wish {
  int devices = 1;        ///< Visible to the process.
  bool of_worker = false; ///< Parameter servers take the first.
  std::string local_rank; ///< LOCAL_RANK; empty: not given.
  std::string visible;    ///< CUDA_VISIBLE_DEVICES; empty: all.
  bool shared = false;    ///< NCCL_MULTI_RANK_GPU_ENABLE: sharing is allowed.
};

/// The wish of this process, from its environment.
gpu_wish wish_of_process(int devices, bool of_worker);

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

} // namespace troupe::transport::nccl
