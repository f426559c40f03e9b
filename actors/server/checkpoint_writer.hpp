#pragma once
// Writes snapshots to disk as checkpoints. An actor on a thread of its own, so
// that a slow disk never delays training; the parameter server sends it one
// snapshot at a time.

#include "messages/interfaces.hpp"
#include "models/storage/lives.hpp"

#include <filesystem>

namespace troupe {

struct checkpoint_writer_parts {
  std::filesystem::path folder; ///< `checkpoints` in the run's folder.
  uint32_t keep = 3;            ///< Number of newest checkpoints that are kept.
  /// Nothing more is written there when this is lost; null: it is not checked.
  models::life_claim_ptr claim{};
};

class checkpoint_writer_state {
public:
  using pointer =
    checkpoint_writer_actor::stateful_pointer<checkpoint_writer_state>;

  static constexpr const char* name = "troupe.checkpoint-writer";

  checkpoint_writer_state(pointer self, checkpoint_writer_parts parts);

  checkpoint_writer_actor::behavior_type make_behavior();

private:
  caf::result<std::string> write(const snapshot_ptr& state);
  void require_claim() const;
  std::string write_best(const snapshot& state) const;
  std::string write_settings(const snapshot& state) const;

  checkpoint_writer_parts parts_;
};

} // namespace troupe
