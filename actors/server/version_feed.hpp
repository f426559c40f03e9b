#pragma once
// Gives versions of the weights to evaluators: it knows which version is due
// for scoring, who waits for it, and which versions were given out, in case one
// of them gets the best score.
//
// With shards in other processes a version that is due is fetched from them,
// one at a time. If that takes longer than training up to the next one,
// evaluators skip versions, just as they do when they are slow themselves.
//
// A part of the parameter server's state, called on the server's thread; not
// thread-safe.

#include "actors/core/evaluation_board.hpp"
#include "actors/server/lead.hpp"
#include "actors/shards/shard_group.hpp"
#include "actors/weights/server_model.hpp"
#include "messages/interfaces.hpp"

#include <map>
#include <optional>
#include <vector>

namespace troupe {

struct version_feed_parts {
  lead_actor::pointer self;
  server_model* model = nullptr;
  shard_group* shards = nullptr;
  uint64_t frequency = 0;   ///< Steps between versions that are due.
  uint64_t epochs = 0;      ///< Complete when this life of the server begins.
  bool keeps_shown = false; ///< Whether the best weights are saved.
  /// The whole version 0 if it is due, too, since its weights are not drawn.
  payload first{};
};

class version_feed {
public:
  using watch_promise = caf::typed_response_promise<watch_header, payload>;
  using watch_result = caf::result<watch_header, payload>;

  version_feed(lead& of, version_feed_parts parts);

  /// An evaluator wants a later version than it has seen, or the average at the
  /// one that it was given.
  watch_result watch(const watch_request& request);

  /// Sets the number of evaluators.
  void set_evaluators(uint32_t evaluators);

  uint32_t evaluators() const { return evaluators_; }

  /// The versions after `before` up to `number` are made, and the last of them
  /// is published; `epochs` are complete with it. Returns whether it is due.
  bool made(version before, version number, uint64_t epochs);

  /// The run ends with the newest version, which is due whatever its number.
  void finish();

  void scored(version number) { board_.scored(number); }

  /// Whether the last version is still to be scored.
  bool last_open() const { return board_.last_open(); }

  /// What evaluators got of a version.
  struct shown_version {
    payload weights;
    payload average; ///< Empty: there is none.
  };

  /// What evaluators got as this version; nothing when it was already taken or
  /// is not kept any more.
  shown_version take_shown(version number);

  /// The kept versions whose score is still to come.
  std::vector<version> unscored() const;

  /// The run is over: answers all evaluators that wait, and from now on each
  /// new request at once.
  void close();

private:
  /// An evaluator that waits for a version after the one it has seen.
  struct waiting_evaluator {
    watch_promise asks;
    version after;
  };

  /// Whether somebody would score a version.
  bool is_wanted() const { return evaluators_ > 0 || !waiting_.empty(); }

  void show_first();
  void show_average(version of, watch_promise& asks);
  void show_due();
  void fetch_due();
  void serve();
  void remember(version shown, const shown_version& current);

  lead& lead_;
  version_feed_parts parts_;
  cores::evaluation_board board_;
  std::vector<waiting_evaluator> waiting_;
  uint32_t evaluators_ = 0;
  version due_version_;
  shown_version due_; ///< The weights of `due_version_`.
  std::optional<version> fetching_;
  std::map<version, shown_version>
    shown_; ///< Given to evaluators, not yet scored.
  bool finishing_ = false;
  bool closed_ = false;
};

} // namespace troupe
