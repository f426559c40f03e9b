#pragma once
// When checkpoints are taken and who writes them: one snapshot is written at a
// time, and while the writer is busy only the newest waits, so that a slow disk
// never holds training up. The best weights are written by the same writer.
//
// A part of the server's state; not thread-safe.

#include "actors/shards/shard_group.hpp"
#include "actors/state/server_model.hpp"
#include "actors/state/snapshot.hpp"
#include "messages/interfaces.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace troupe {

struct checkpoint_schedule_parts {
  lead_actor::pointer self;
  checkpoint_writer_actor writer;
  server_model* model = nullptr;
  shard_group* shards = nullptr;
  uint64_t frequency = 1;
  /// There is something to go on from: weights, or samples that end.
  bool wanted = true;
  /// Workers keep what compression takes away, and make it durable themselves.
  bool has_error_feedback = false;
  std::function<version()> newest;
  /// Fills in all of a manifest but weights, optimiser and files.
  std::function<void(proto::Manifest&)> describe;
  /// For each member: its handle, and its last gradient that is settled.
  std::function<void(const std::function<void(const worker_actor&, sequence)>&)>
    each_member;
  /// The whole of a version was fetched from the shards.
  std::function<void(version, const at::Tensor&)> fetched;
  /// A snapshot for a checkpoint has all that is to be in it.
  std::function<void(const snapshot&)> collected;
  std::function<void(version, const std::string&)> saved; ///< Durable now.
  std::function<void(const score&)> best_saved;
  std::function<void(const std::string&)> failed;
  std::function<void()> idle; ///< Nothing is being written or collected.
};

class checkpoint_schedule {
public:
  /// @param last The checkpoint that this life begins with.
  checkpoint_schedule(checkpoint_schedule_parts parts,
                      std::optional<version> last)
    : parts_(std::move(parts)), last_(last) {
    // nop
  }

  /// A version is out.
  void made(version what) {
    if (what.value % parts_.frequency == 0)
      take();
  }

  /// Takes a checkpoint of the newest version. False when there is one already,
  /// or none is to be had.
  bool take();

  /// Gathers all that training has made, from the shards, too.
  void collect(std::function<void(const snapshot_ptr&)> then);

  /// Writes these weights as the best.
  void write_best(snapshot_ptr what);

  /// What is not being written yet never will be.
  void give_up();

  /// Snapshots are not written any more: they are only collected.
  void close() { closed_ = true; }

  bool is_idle() const {
    return collecting_ == 0 && keeping_ == 0 && !writing_ && !next_ &&
           !next_best_;
  }

private:
  /// s for which a worker may take to make its error feedback durable.
  static constexpr double patience_with_a_worker = 10;

  void keep_error_feedback();
  void write_next();
  void note_written(const snapshot& what, const std::string& name);

  checkpoint_schedule_parts parts_;
  std::optional<version> last_;
  size_t collecting_ = 0; ///< Snapshots that shards still add to.
  size_t keeping_ = 0;    ///< Workers that make their error feedback durable.
  bool writing_ = false;
  bool closed_ = false;
  snapshot_ptr next_;      ///< Waits for the writer; the newest counts.
  snapshot_ptr next_best_; ///< The same of the best weights.
};

} // namespace troupe
