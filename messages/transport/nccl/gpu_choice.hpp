#pragma once
// Which GPU of its host a process uses. NCCL refuses ranks of one communicator
// that share a GPU, so each process of a host takes another one, and keeps it
// as long as it lives; when there is none left that is said in one line.

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe::transport::nccl {

struct gpu_wish {
  int devices = 1;        ///< That the process sees.
  bool of_worker = false; ///< Parameter servers take the first.
  std::string local_rank; ///< LOCAL_RANK; empty: not given.
  std::string visible;    ///< CUDA_VISIBLE_DEVICES; empty: all.
  bool shared = false;    ///< NCCL_MULTI_RANK_GPU_ENABLE: nobody minds.
};

/// The wishes of this process.
gpu_wish wish_of_process(int devices, bool of_worker);

/// Devices that suit, the best first; or a line that says why none does.
std::variant<std::vector<int>, std::string> suitable_gpus(const gpu_wish& what);

/// A GPU that no other process of this user has taken.
struct gpu {
  int device = 0;
  std::shared_ptr<const void> claim; ///< Given back with the last of these.
};

/// Takes the first that suits and is free. Else a line that says what to do.
std::variant<gpu, std::string> take_gpu(const gpu_wish& what);

} // namespace troupe::transport::nccl
