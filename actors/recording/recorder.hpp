#pragma once
// The recorder writes the run directory (metrics, TensorBoard events, summary)
// and reports progress on stdout.
//
// An actor on a thread of its own, in the process of the parameter server,
// which sends it notes.

#include "actors/log_files/tensorboard_log.hpp"
#include "actors/recording/notes.hpp"
#include "actors/recording/peer_names.hpp"
#include "actors/runtime/wall_clock.hpp"
#include "messages/interfaces.hpp"
#include "models/storage/lives.hpp"

#include <filesystem>
#include <memory>
#include <optional>

namespace troupe {

struct recorder_parts {
  std::filesystem::path folder; ///< The run directory, which must exist.
  /// Nothing more is written there when this is lost; null: it is not checked.
  models::life_claim_ptr claim{};
  std::string network;
  std::string dataset;
  uint32_t workers = 0;
  uint32_t shards = 1;
  uint64_t seed = 0;
  size_t terminal_width = 0;           ///< 0: stdout is no terminal.
  double started_at = 0;               ///< s since 1970, for TensorBoard.
  std::optional<uint64_t> resume_step; ///< Continues from this step.
  bool silent = false;                 ///< Writes nothing to stdout.
  /// Shows the figures only at the end: in between they come as a person waits,
  /// which differs between two starts of a virtual run.
  bool without_progress = false;
  /// Whether lines and records may be written up to a second late, so that
  /// files are complete only at the end. For runs that are never resumed and in
  /// which writing is most of the work.
  bool gathers = false;
  recording::peer_names_ptr peers{}; ///< Host and process of each worker.
  /// Where a launch of this process notes which of its processes have failed;
  /// empty: there is none.
  std::filesystem::path failures{};
  /// Whether what is written may name hosts and processes; not of virtual runs.
  bool names_processes = true;
};

class recorder_state {
public:
  using pointer = recorder_actor::stateful_pointer<recorder_state>;

  static constexpr const char* name = "troupe.recorder";

  /// Throws `run_error` when a file cannot be opened.
  recorder_state(pointer self, recorder_parts parts);

  recorder_actor::behavior_type make_behavior();

private:
  caf::result<void> write(const note& entry);
  caf::result<void> finish(const note& entry);

  // One overload for each kind of note.
  void put(const note& at, const notes::started& entry);
  void put(const note& at, const notes::resumed& entry);
  void put(const note& at, const notes::update& entry);
  void put(const note& at, const notes::evaluation& entry);
  void put(const note& at, const notes::joined& entry);
  void put(const note& at, const notes::left& entry);
  void put(const note& at, const notes::first_gradient& entry);
  void put(const note& at, const notes::members& entry);
  void put(const note& at, const notes::dropped& entry);
  void put(const note& at, const notes::cancelled& entry);
  void put(const note& at, const notes::policy_changed& entry);
  void put(const note& at, const notes::refused& entry);
  void put(const note& at, const notes::epoch& entry);
  void put(const note& at, const notes::checkpoint& entry);
  void put(const note& at, const notes::warning& entry);
  void put(const note& at, const notes::standstill& entry);
  void put(const note& at, const notes::stopping& entry);
  void put(const note& at, const notes::early_summary& entry);
  void put(const note& at, const notes::finished& entry);

  std::string name_of(worker_id who) const;
  void note_failure(recording::failed_process one);
  std::optional<recording::failed_process> first_failure(double now) const;
  void require_claim();
  void flush_if_due();
  void say(const std::string& line);
  void show(const std::string& text);

  pointer self_;
  recorder_parts parts_;
  std::optional<uint64_t> last_step_before_; ///< In the log that is resumed.
  recording::metrics_log metrics_;
  recording::tensorboard_log tensorboard_;
  recording::progress progress_;
  wall_clock wall_;          ///< For stdout: a person waits in real time.
  double refusal_said_ = -1; ///< When a refusal was last reported.
  double flushed_ = 0;       ///< When buffers were last written.
  double claimed_ = 0;       ///< When the claim was last looked at.
  bool paused_ = false;      ///< For want of workers.
  std::optional<std::string> trouble_;              ///< The first write error.
  std::optional<recording::failed_process> failed_; ///< The first that did.
  bool stopping_ = false; ///< Training is over: who leaves does not fail.
};

} // namespace troupe
