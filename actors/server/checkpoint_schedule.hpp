#pragma once
// Decides when checkpoints are taken and hands them to the checkpoint writer.
// The writer has one snapshot at a time. While it is busy only the newest
// snapshot waits, so that a slow disk never delays training. The best weights
// go to the same writer.
//
// A part of the parameter server's state, called on the server's thread; not
// thread-safe.

#include "actors/server/lead.hpp"
#include "actors/shards/shard_group.hpp"
#include "actors/weights/server_model.hpp"
#include "actors/weights/snapshot.hpp"
#include "messages/interfaces.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace troupe {

struct checkpoint_schedule_parts {
  lead_actor::pointer self;
  checkpoint_writer_actor writer;
  server_model* model = nullptr;
  shard_group* shards = nullptr;
  /// Where checkpoints are written: with shards in other processes their slots
  /// are gathered there.
  std::filesystem::path folder;
  uint64_t frequency = 1;
  /// Whether this run has anything to save: weights, or a data set that ends.
  bool wanted = true;
  /// Workers carry something from one gradient to the next, as error feedback
  /// of compression: each writes its own to disk.
  bool workers_carry = false;
};

class checkpoint_schedule {
public:
  /// @param last The checkpoint that this life of the server starts from.
  checkpoint_schedule(lead& of, checkpoint_schedule_parts parts,
                      std::optional<version> last)
    : lead_(of), parts_(std::move(parts)), last_(last) {
    // nop
  }

  /// The versions after `before` up to `number` are made. Only the last of them
  /// can be saved: the ledger is that of the whole decision.
  void made(version before, version number) {
    if (number.value / parts_.frequency > before.value / parts_.frequency)
      take_checkpoint();
  }

  /// Takes a checkpoint of the newest version. Returns false when there is one
  /// already, or when none can be made.
  bool take_checkpoint();

  /// Collects the complete training state, including that of the shards.
  void collect(std::function<void(const snapshot_ptr&)> then);

  /// Writes these weights as the best.
  void write_best(snapshot_ptr state);

  /// Writes what the run's settings are now.
  void write_settings(snapshot_ptr state);

  /// Discards all snapshots that are not being written yet.
  void give_up();

  /// From now on snapshots are only collected, not written.
  void close() { closed_ = true; }

  bool is_idle() const {
    return collecting_ == 0 && keeping_ == 0 && !writing_ && !next_ &&
           !next_settings_ && !next_best_;
  }

private:
  /// Seconds that a worker has to make its error feedback durable.
  static constexpr double patience_with_a_worker = 10;

  void keep_carried();
  void fail(const std::string& line);
  void write_next();

  lead& lead_;
  checkpoint_schedule_parts parts_;
  std::optional<version> last_;
  size_t collecting_ = 0; ///< Snapshots that wait for data of shards.
  size_t keeping_ = 0;    ///< Workers that are writing their error feedback.
  bool writing_ = false;
  bool closed_ = false;
  snapshot_ptr next_;      ///< Waits for the writer; a newer one replaces it.
  snapshot_ptr next_best_; ///< The same for the best weights.
  snapshot_ptr next_settings_; ///< The same for the settings of the run.
};

} // namespace troupe
