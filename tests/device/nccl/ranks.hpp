#pragma once
// Ranks of a communicator over the double of NCCL, asked in turn by one thread.
// Owned by a test.

#include "tests/device/nccl/room.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::testing::fake_nccl {

/// A communicator's id.
abi::unique_id new_id();

/// The rules that were broken since ranks were made last, one line each.
const std::string& breaches();

class tested_rank {
public:
  tested_rank(const abi::unique_id& id, int number, int size, int device);

  /// Aborts.
  ~tested_rank();

  int number() const { return number_; }
  c10::Device device() const { return stream_.device(); }
  c10::Stream stream() const { return stream_; }
  c10::Stream other_stream() const { return other_; }

  abi::result state();

  /// Of an error.
  std::string why();

  // Enqueued on this rank's stream:

  abi::result send(const at::Tensor& x, int to);
  abi::result send_here(const at::Tensor& x, int to);
  abi::result receive(const at::Tensor& x, int from);
  abi::result reduce_scatter(const at::Tensor& x, const at::Tensor& range);
  abi::result all_gather(const at::Tensor& range, const at::Tensor& x);

  /// Lets what is enqueued from now on come after the work of this stream.
  void wait_for(c10::Stream before);

  /// Lets what the current stream is given from now on come after this rank's
  /// work.
  void wait_here();

  /// Whether an event behind all calls has happened.
  bool is_over();

  void abort();
  void abort_again();

private:
  abi::comm comm_ = nullptr;
  abi::comm ended_ = nullptr;
  int number_;
  c10::Stream stream_;
  c10::Stream other_;
  std::optional<c10::Event> over_; ///< Behind all calls, once they are in.
};

struct tested_ranks {
  /// All ranks in this process, each on a device of its own, or on one.
  explicit tested_ranks(int size, int devices = 4);

  /// Some, with an id that others know.
  tested_ranks(const abi::unique_id& id, int size,
               const std::vector<int>& here);

  ~tested_ranks();

  tested_rank& operator[](size_t i) { return *ranks[i]; }

  static void spoil(const std::string& faults);

  bool meet();
  void until_come_in();

  /// Until all is over, without anybody asking for an event.
  void let_go_on();

  bool until_over();

  std::vector<std::unique_ptr<tested_rank>> ranks;
};

} // namespace troupe::testing::fake_nccl
