#pragma once
// Versions for those who look on: which one is due for scoring, who waits for
// it, and what was shown, in case that its score is the best.
//
// With shards in other processes a version that is due is fetched from them,
// one at a time: when that takes longer than training to the next, an evaluator
// skips versions, as when it is slow itself.
//
// A part of the server's state; not thread-safe.

#include "actors/core/evaluation_board.hpp"
#include "actors/shards/shard_group.hpp"
#include "actors/state/server_model.hpp"
#include "messages/interfaces.hpp"

#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace troupe {

struct version_feed_parts {
  lead_actor::pointer self;
  server_model* model = nullptr;
  shard_group* shards = nullptr;
  std::function<version()> newest;
  uint64_t frequency = 0;   ///< Steps between versions that are due.
  uint64_t epochs = 0;      ///< Complete when this life begins.
  bool keeps_shown = false; ///< For the best weights.
};

class version_feed {
public:
  using watch_promise = caf::typed_response_promise<watch_header, payload>;
  using watch_result = caf::result<watch_header, payload>;

  explicit version_feed(version_feed_parts parts);

  /// An evaluator that has seen versions up to `after` wants the next.
  watch_result watch(version after);

  /// So many evaluators look on.
  void set_audience(uint32_t evaluators);

  uint32_t audience() const { return audience_; }

  /// A version is out, with which so many epochs are complete.
  void made(version what, uint64_t epochs);

  /// The run ends with the newest version, which is due whatever its number.
  void finish();

  void scored(version what) { board_.scored(what); }

  /// Is the last version still to be scored?
  bool last_open() const { return board_.last_open(); }

  /// The weights that were shown as this version, once; nothing when they are
  /// not there any more.
  payload take_shown(version what);

  /// A whole version was fetched from the shards.
  void keep_whole(version of, const at::Tensor& weights);

  /// The newest version as a whole, where it was fetched; else nothing.
  const payload* whole_newest() const;

  /// The run is over: all who wait are told, now and from now on.
  void close();

private:
  /// An evaluator that waits for a version after the one it has seen.
  struct waiting_evaluator {
    watch_promise asks;
    version after;
  };

  void show_due();
  void fetch_due();
  void serve();
  void remember(version shown, const payload& weights);

  version_feed_parts parts_;
  cores::evaluation_board board_;
  std::vector<waiting_evaluator> waiting_;
  uint32_t audience_ = 0;
  version due_version_;
  payload due_weights_; ///< The version that is due for scoring.
  std::optional<version> fetching_;
  payload whole_; ///< What was last fetched from remote shards.
  version whole_version_;
  std::map<version, payload> shown_; ///< Given to evaluators, not yet scored.
  bool finishing_ = false;
  bool closed_ = false;
};

} // namespace troupe
