#pragma once
// Between processes of one host: a frame says where in shared memory its tensor
// lies, and the other end reads it there. A region's file goes along with the
// first frame that names the region.
//
// The sender holds a tensor until the other end lets go of it. What it lent is
// still read, perhaps, when the path ends; so memory that is written anew by
// whoever made it must not be used again then (`keeps_lent`).

#include "messages/transport/shm/shared_memory.hpp"
#include "messages/transport/wire/path.hpp"
#include "messages/transport/wire/path_row.hpp"

#include <map>
#include <set>

namespace troupe::transport {

class shm_path final : public path {
public:
  /// @param keeps_lent The tensors that this end lends are read by others even
  /// when the path is gone: gradients are, weights are not.
  shm_path(socket line, const path_terms& terms,
           std::shared_ptr<shared_memory> memory, bool keeps_lent);

  ~shm_path() override;

  std::string_view name() const override { return "shm"; }

private:
  void place(frame_head& head, const payload& tensor, outgoing& out) override;

  payload expect(const frame_head& head, std::vector<descriptor>& passed,
                 incoming& follows) override;

  void let_go(uint64_t number) override;

  payload at_home(const payload& tensor);
  void learn(const frame_head& head, std::vector<descriptor>& passed);

  std::shared_ptr<shared_memory> memory_;
  bool keeps_lent_;
  payload_pool copies_;     ///< Of tensors that lie elsewhere.
  std::set<uint64_t> told_; ///< Regions that the other end has.
  std::map<uint64_t, std::shared_ptr<const mapping>> known_; ///< Its regions.
  std::mutex lending_;
  std::map<uint64_t, payload> lent_; ///< By request.
};

/// What the others need to know of it.
path_row shm_row();

} // namespace troupe::transport
