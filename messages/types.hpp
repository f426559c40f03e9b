#pragma once
// Every structure that actors exchange, with its serialisation. Plain values: a
// message owns a copy, and what several actors share is immutable.

#include "config/values/metrics.hpp"
#include "messages/error.hpp"
#include "messages/gradient_stream.hpp"
#include "messages/ids.hpp"
#include "messages/lease.hpp"
#include "messages/payload.hpp"
#include "messages/real.hpp"
#include "messages/segment_values.hpp"
#include "messages/shards.hpp"

#include <caf/all.hpp>

#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

namespace data {
struct batch;
} // namespace data

namespace transport {
struct frame; // what the two ends of a link exchange
} // namespace transport

struct snapshot;    // what the checkpoint writer writes
struct note;        // what the recorder writes
struct shard_fetch; // the states of all shards at one version

// -- between a worker and the parameter server --------------------------------

/// Comes with one gradient: the mean over `samples` of the loss's gradient.
struct push_header {
  push_id id;
  life_number server;  ///< The life of the server that the worker knows.
  version computed_on; ///< The weights it was computed on.
  lease_id from;       ///< The lease that the samples came from.
  uint64_t samples = 0;
  real loss;            ///< Mean over the samples.
  real compute_seconds; ///< Forward and backward.
  real wait_seconds;    ///< Spent waiting for the weights of this step.
  real data_seconds;    ///< Spent waiting for the batch of this step.
  /// Of compute_seconds: how long a stage of a pipeline had nothing to do, on
  /// average; 0 without a pipeline.
  real idle_seconds;
  sequence request{0};  ///< Numbers the requests of this life of the worker.
  uint64_t skipped = 0; ///< Damaged samples first found in this batch.
  /// Further leases that the samples came from, where a gradient was
  /// accumulated over several.
  std::vector<lease_id> also{};
  config::metrics metrics{}; ///< More than the loss: means over the samples.
  /// Of a difference of weights: steps that the worker's own optimiser had made
  /// before. 0 for a new optimiser, and for a gradient.
  uint64_t inner_steps = 0;
  /// Of a round of local steps that began before its weights had come: steps
  /// that were made until then.
  uint32_t early_steps = 0;

  /// All leases that the samples came from.
  std::vector<lease_id> leases() const {
    std::vector<lease_id> out{from};
    out.insert(out.end(), also.begin(), also.end());
    return out;
  }
};

/// Asks for the newest weights without delivering a gradient: the first request
/// of a member, or the next one after it abandoned a computation.
struct pull_header {
  worker_id worker;
  life_number life;
  life_number server;
  lease_id abandoned;  ///< The lease abandoned; 0 for none.
  sequence request{0}; ///< Numbers the requests of this life of the worker.
  std::vector<lease_id> also{}; ///< Further leases abandoned.

  /// All leases abandoned.
  std::vector<lease_id> leases() const {
    std::vector<lease_id> out;
    if (abandoned.value != 0)
      out.push_back(abandoned);
    out.insert(out.end(), also.begin(), also.end());
    return out;
  }
};

/// What comes with the next weights.
struct release_header {
  version weights;           ///< The version of the payload.
  life_number server;        ///< The life of the server that answers.
  std::vector<lease> leases; ///< Further work, in the order of computation.
  bool dropped = false; ///< The worker's last gradient was discarded as late.
  /// Local steps of the worker's next round; 0: as many as the settings say.
  uint32_t steps = 0;
  /// Which fragment the worker's next gradient is of
  /// (models/layout/fragments.hpp).
  uint32_t fragment = 0;
  /// The worker goes on with weights of its own, and takes these, of the
  /// fragment before that one, into them. Else it begins anew with these, which
  /// are everything.
  bool goes_on = false;
};

/// What an evaluator wants next.
struct watch_request {
  version after; ///< A version after this one.
  /// True: instead, the average of the weights at the version `after` itself.
  bool average = false;
};

/// Comes with a version to be scored.
struct watch_header {
  version weights;
  bool last = false;     ///< The run has ended: no version comes after it.
  bool averaged = false; ///< There is an average at this version, too.
};

/// What an evaluator found.
struct score {
  version weights;
  config::metrics metrics;
  uint64_t samples = 0;
  real seconds; ///< Time that the evaluation took.

  std::optional<double> value_of(std::string_view name) const {
    return config::value_of(metrics, name);
  }
};

/// The score of a version and of the average of its weights, as one.
inline score with_average(score found, const score& of_average) {
  config::add_average(found.metrics, of_average.metrics);
  found.seconds = found.seconds + of_average.seconds;
  return found;
}

// -- membership ---------------------------------------------------------------

/// What a worker sends when it registers.
struct registration_request {
  bool has_rank = false;
  worker_id rank;        ///< The rank it wants to have, if `has_rank`.
  std::string transport; ///< How its tensors are sent, for the records.
  owned_data data;       ///< What its own files hold, if it has any.
  /// Whether it is told of the run's end only when the last score is known,
  /// instead of when training is over.
  bool awaits_score = false;
  uint32_t leases = 2;     ///< How many it wants to have at a time.
  bool takes_last = false; ///< It fetches the weights that the run ends with.
  std::string device{};    ///< The GPU that it computes on; empty: none.
};

/// The answer to a worker that registers.
struct registration {
  worker_id worker;
  life_number life;
  life_number server;
};

/// How the run ended, for everybody in the cluster.
struct run_end {
  uint8_t status = 0; ///< Exit status of the receiver's process.
  std::string line;   ///< Why, for the user; empty when all went well.
  /// Of the last version on the test set; NaN: not known.
  real accuracy = std::numeric_limits<double>::quiet_NaN();
  /// For peers that have lost others: the nodes that go on together, by their
  /// ranks so far; empty: the run is over.
  std::vector<shard_id> next{};
  /// The next life does without NCCL, since a sum has failed.
  bool without_nccl = false;

  bool failed() const { return status == 1 || status == 2; }
};

// -- tensors on the move ------------------------------------------------------

/// A piece of a payload sent in chunks. At the sender it refers to the
/// payload's memory; at the receiver it owns a copy of the bytes.
struct chunk {
  transfer_id transfer;
  uint64_t offset = 0; ///< Of the first byte in the payload.
  payload source;      ///< At the sender: where the bytes lie.
  uint64_t size = 0;
  std::shared_ptr<const std::byte[]> received; ///< At the receiver.

  std::span<const std::byte> bytes() const;
};

/// A larger chunk is refused before memory is allocated for it.
inline constexpr uint64_t max_chunk_bytes = 16u << 20;

// -- inside one process -------------------------------------------------------

using batch_ptr = std::shared_ptr<const data::batch>;
using snapshot_ptr = std::shared_ptr<const snapshot>;
using note_ptr = std::shared_ptr<const note>;
using shard_fetch_ptr = std::shared_ptr<const shard_fetch>;
using frame_ptr = std::shared_ptr<const transport::frame>;

/// The batch of a lease, as the loader returns it.
struct loaded_batch {
  lease from;
  batch_ptr batch;
  uint64_t skipped = 0; ///< Damaged samples found for the first time.
};

/// Set to true to make a computation stop at its next check.
using cancel_ptr = std::shared_ptr<std::atomic<bool>>;

/// Counts the local steps of a worker. It may be less than their number, but
/// grows while the worker goes on.
using progress_ptr = std::shared_ptr<std::atomic<uint64_t>>;

/// A step of the worker's own optimiser, as one of a round.
struct local_step {
  bool begins = false;   ///< It is the first of its round.
  bool ends = false;     ///< It is the last one: the difference is wanted.
  uint64_t number = 0;   ///< In the round, from 0 on.
  push_id after{};       ///< The last gradient that the server has taken.
  push_id makes{};       ///< What the difference of the round will be.
  uint32_t fragment = 0; ///< As in a release_header.
  /// The round begins with weights of the worker's own, else with the task's.
  bool goes_on = false;
  /// The task has weights of the fragment before, which are merged into the
  /// worker's own.
  bool merges = false;
};

/// One gradient to compute, or a step of the worker's own.
struct compute_task {
  lease from;
  /// The samples of the lease, or of `part`. Null: no step is made, and the
  /// round ends with those before.
  batch_ptr batch;
  /// In a round of local steps only one task has them: the first, or the first
  /// after they have come.
  payload weights;
  /// The running statistics to start from; empty: those in the weights.
  payload statistics;
  cancel_ptr cancel;
  gradient_way way; ///< On which the gradient leaves.
  /// The version of the weights. Before they have come: the one that follows
  /// those of the round before.
  version computed_on;
  /// The worker's link. Parts of the network may live at its other end: then it
  /// is a `module_actor`, too.
  caf::strong_actor_ptr link;
  replica_part part{};
  bool last_was_dropped = false;     ///< The worker's gradient before this one.
  std::optional<local_step> local{}; ///< Nothing: the gradient is pushed.
  /// For who makes a whole round for one task: how many steps it has, as in a
  /// release_header, and where they are counted.
  uint32_t steps = 0;
  progress_ptr progress{};
  uint32_t fragment = 0; ///< As in a release_header.
  bool goes_on = false;  ///< The same.
};

/// The result of a compute task.
struct gradient_report {
  bool cancelled = false;
  /// Followed by the new running statistics. Of a local step that does not end
  /// its round: nothing.
  payload gradient;
  payload statistics; ///< These alone, where workers keep their own.
  uint64_t samples = 0;
  real loss;
  real seconds;
  uint64_t skipped = 0; ///< As in a batch, if the batch was loaded here.
  real waited;          ///< s spent waiting for weights still arriving.
  /// Of `seconds`: how long a stage of a pipeline had nothing to do, on
  /// average.
  real idle;
  /// Further leases whose samples are in the gradient.
  std::vector<lease_id> also{};
  config::metrics metrics{}; ///< More than the loss: means over the samples.
  uint64_t inner_steps = 0;  ///< As in a push_header.
};

// -- inspection ---------------------------------------------------------------

} // namespace troupe

namespace troupe::config {

/// Refuses what is not a metric's name, because users read it.
template <class Inspector>
bool inspect(Inspector& f, metric& x) {
  auto get = [&x] {
    return real{x.value};
  };
  auto set = [&x](real value) {
    x.value = value;
    return true;
  };
  return f.object(x)
    .on_load([&x] { return is_metric_name(x.name); })
    .fields(f.field("name", x.name), f.field("value", get, set));
}

} // namespace troupe::config

namespace troupe {

template <class Inspector>
bool inspect(Inspector& f, push_header& x) {
  return f.object(x)
    .on_load([&x] { return x.metrics.size() <= config::most_metrics; })
    .fields(f.field("id", x.id), f.field("server", x.server),
            f.field("computed_on", x.computed_on), f.field("from", x.from),
            f.field("samples", x.samples), f.field("loss", x.loss),
            f.field("compute_seconds", x.compute_seconds),
            f.field("wait_seconds", x.wait_seconds),
            f.field("data_seconds", x.data_seconds),
            f.field("idle_seconds", x.idle_seconds),
            f.field("request", x.request), f.field("skipped", x.skipped),
            f.field("also", x.also), f.field("metrics", x.metrics),
            f.field("inner_steps", x.inner_steps),
            f.field("early_steps", x.early_steps));
}

template <class Inspector>
bool inspect(Inspector& f, pull_header& x) {
  return f.object(x).fields(
    f.field("worker", x.worker), f.field("life", x.life),
    f.field("server", x.server), f.field("abandoned", x.abandoned),
    f.field("request", x.request), f.field("also", x.also));
}

template <class Inspector>
bool inspect(Inspector& f, release_header& x) {
  return f.object(x).fields(
    f.field("weights", x.weights), f.field("server", x.server),
    f.field("leases", x.leases), f.field("dropped", x.dropped),
    f.field("steps", x.steps), f.field("fragment", x.fragment),
    f.field("goes_on", x.goes_on));
}

template <class Inspector>
bool inspect(Inspector& f, watch_header& x) {
  return f.object(x).fields(f.field("weights", x.weights),
                            f.field("last", x.last),
                            f.field("averaged", x.averaged));
}

template <class Inspector>
bool inspect(Inspector& f, watch_request& x) {
  return f.object(x).fields(f.field("after", x.after),
                            f.field("average", x.average));
}

template <class Inspector>
bool inspect(Inspector& f, score& x) {
  return f.object(x)
    .on_load([&x] { return x.metrics.size() <= config::most_metrics; })
    .fields(f.field("weights", x.weights), f.field("metrics", x.metrics),
            f.field("samples", x.samples), f.field("seconds", x.seconds));
}

template <class Inspector>
bool inspect(Inspector& f, registration_request& x) {
  return f.object(x).fields(
    f.field("has_rank", x.has_rank), f.field("rank", x.rank),
    f.field("transport", x.transport), f.field("data", x.data),
    f.field("awaits_score", x.awaits_score), f.field("leases", x.leases),
    f.field("takes_last", x.takes_last), f.field("device", x.device));
}

template <class Inspector>
bool inspect(Inspector& f, registration& x) {
  return f.object(x).fields(f.field("worker", x.worker),
                            f.field("life", x.life),
                            f.field("server", x.server));
}

template <class Inspector>
bool inspect(Inspector& f, run_end& x) {
  return f.object(x).fields(
    f.field("status", x.status), f.field("line", x.line),
    f.field("accuracy", x.accuracy), f.field("next", x.next),
    f.field("without_nccl", x.without_nccl));
}

template <class Inspector>
bool inspect(Inspector& f, element_type& x) {
  auto get = [&x] {
    return static_cast<uint8_t>(x);
  };
  auto set = [&x](uint8_t number) {
    if (number < 1 || number > 3)
      return false;
    x = static_cast<element_type>(number);
    return true;
  };
  return f.apply(get, set);
}

template <class Inspector>
bool inspect(Inspector& f, payload_shape& x) {
  return f.object(x).fields(f.field("type", x.type), f.field("count", x.count));
}

/// Inspectors for humans see offset and size, never the numbers.
template <class Inspector>
bool inspect(Inspector& f, chunk& x) {
  if (f.has_human_readable_format())
    return f.object(x).fields(f.field("transfer", x.transfer),
                              f.field("offset", x.offset),
                              f.field("size", x.size));
  if (!f.apply(x.transfer) || !f.apply(x.offset) || !f.apply(x.size))
    return false;
  if constexpr (Inspector::is_loading) {
    if (x.size > max_chunk_bytes) {
      f.set_error(caf::make_error(caf::sec::load_callback_failed,
                                  "chunk larger than the protocol allows"));
      return false;
    }
    auto bytes = std::make_shared_for_overwrite<std::byte[]>(x.size);
    if (!f.value(caf::span<caf::byte>{reinterpret_cast<caf::byte*>(bytes.get()),
                                      x.size}))
      return false;
    x.received = std::move(bytes);
    return true;
  } else {
    auto bytes = x.bytes();
    return f.value(caf::span<const caf::byte>{
      reinterpret_cast<const caf::byte*>(bytes.data()), bytes.size()});
  }
}

} // namespace troupe
