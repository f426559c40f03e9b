#pragma once
// How many threads LibTorch uses for one operation of the calling thread.
// Internal to the engine and to actors that compute on threads of others; any
// thread.

#include <ATen/Parallel.h>

namespace troupe::models {

/// Operations of this thread use so many threads while the object lives. A
/// thread without a number uses all cores, even for a loss of a few numbers,
/// and then waits for helper threads while other computations hold the cores.
class intra_op_threads {
public:
  explicit intra_op_threads(int count) : before_(at::get_num_threads()) {
    set(count);
  }

  ~intra_op_threads() { set(before_); }

  intra_op_threads(const intra_op_threads&) = delete;
  intra_op_threads& operator=(const intra_op_threads&) = delete;

private:
  static void set(int count) {
    if (at::get_num_threads() != count)
      at::set_num_threads(count);
  }

  int before_;
};

} // namespace troupe::models
