#pragma once
// Between two processes of one host: a frame says where in shared memory its
// tensor lies, and the other end reads it there. The first frame that names a
// region also passes the region's file. Owned by its path; threads as in
// tensor_carrier.hpp.
//
// The sender holds a tensor until the other end releases it. When the path ends
// the other end may still be reading, so the memory of lent tensors must not be
// written again (`keeps_lent`).

#include "messages/transport/shm/shared_memory.hpp"
#include "messages/transport/wire/path_row.hpp"

#include <map>
#include <set>

namespace troupe::transport {

class shm_carrier final : public tensor_carrier {
public:
  /// @param keeps_lent Memory that is still lent when the path ends is never
  /// written again: true for gradients, whose memory would be reused, false for
  /// weights.
  shm_carrier(frame_line& line, const path_terms& terms,
              std::shared_ptr<shared_memory> memory, bool keeps_lent);

  ~shm_carrier() override;

  std::string_view name() const override { return "shm"; }

  outgoing_tensor place(frame_head& head, const payload& tensor) override;

  incoming_tensor expect(const frame_head& head,
                         std::vector<descriptor>& files) override;

  void let_go(uint64_t request) override;

private:
  payload at_home(frame_kind kind, const payload& tensor);
  void learn(const frame_head& head, std::vector<descriptor>& files);

  path_terms terms_;
  let_go_ledger_ptr ledger_;
  std::shared_ptr<shared_memory> memory_;
  bool keeps_lent_;
  payload_pool copies_;      ///< Of tensors that lie elsewhere.
  payload_pool activations_; ///< The same for activations.
  std::set<uint64_t> told_;  ///< Regions that the other end has.
  std::map<uint64_t, shared_region_ptr> known_; ///< Its regions.
  std::mutex lending_;
  std::map<uint64_t, payload> lent_; ///< By request.
};

/// The row of this kind of path (path_row.hpp).
path_row shm_row();

} // namespace troupe::transport
