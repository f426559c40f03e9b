#pragma once
// The path between two processes of one host: a frame says where in shared
// memory its tensor lies, and the other end reads it there. The first frame
// that names a region also passes the region's file. Owned by a link or
// gateway; threads as in path.hpp.
//
// The sender holds a tensor until the other end releases it. When the path ends
// the other end may still be reading, so the memory of lent tensors must not be
// written again (`keeps_lent`).

#include "messages/transport/shm/shared_memory.hpp"
#include "messages/transport/wire/path.hpp"
#include "messages/transport/wire/path_row.hpp"

#include <map>
#include <set>

namespace troupe::transport {

class shm_path final : public path {
public:
  /// @param keeps_lent Memory that is still lent when the path ends is never
  /// written again: true for gradients, whose memory would be reused, false for
  /// weights.
  shm_path(socket line, const path_terms& terms,
           std::shared_ptr<shared_memory> memory, bool keeps_lent);

  ~shm_path() override;

  std::string_view name() const override { return "shm"; }

private:
  void place(frame_head& head, const payload& tensor, outgoing& out) override;

  payload expect(const frame_head& head, std::vector<descriptor>& passed,
                 incoming& follows) override;

  void let_go(uint64_t number) override;

  payload at_home(frame_kind kind, const payload& tensor);
  void learn(const frame_head& head, std::vector<descriptor>& passed);

  std::shared_ptr<shared_memory> memory_;
  bool keeps_lent_;
  payload_pool copies_;      ///< Of tensors that lie elsewhere.
  payload_pool activations_; ///< The same for activations.
  std::set<uint64_t> told_;  ///< Regions that the other end has.
  std::map<uint64_t, shared_region_ptr> known_; ///< Its regions.
  std::mutex lending_;
  std::map<uint64_t, payload> lent_; ///< By request.
};

/// What the others need to know of it.
path_row shm_row();

} // namespace troupe::transport
