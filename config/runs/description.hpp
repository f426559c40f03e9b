#pragma once
// The description of a run in one value: the settings of the cluster, the data,
// the network, and the life of the parameter server. Checkpoints, event logs
// and the handshake carry it; a node that resumes, joins, reconnects, follows
// or replays a run compares it with its own by `differences`.
//
// Plain values without actors, files or clocks: any thread may use its own.

#include "config/runs/shared_settings.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::config {

/// One part of a data set. A digest of 0 is not known.
struct data_part {
  uint64_t samples = 0;
  uint64_t labels = 0;  ///< Digest of all labels, in order.
  uint64_t content = 0; ///< Digest of the bytes, or of the files' names and
                        ///< lengths where samples lie in files of their own.

  bool operator==(const data_part&) const = default;
};

/// The data as a node sees it. An empty text and 0 mean "not known".
struct data_description {
  std::string name;
  uint64_t classes = 0;
  std::array<uint64_t, 3> shape{}; ///< C, H, W of a sample.
  /// Nothing where each worker has its own files.
  std::optional<data_part> train;
  std::optional<data_part> test;

  bool operator==(const data_description&) const = default;
};

/// The file whose weights a run began with (`--init`).
struct weights_origin {
  std::string file;   ///< As it was given; empty: the weights were drawn.
  std::string sha256; ///< Of the file, in hex.
  std::string skip;   ///< Patterns of what was not taken from it.

  bool operator==(const weights_origin&) const = default;
};

struct run_description {
  std::string run_id;
  uint32_t life = 0;          ///< Of the parameter server.
  pairs settings;             ///< Settings of the cluster that are known.
  data_description data;      ///< Training and test data.
  std::string network_sha256; ///< Of a script's file, in hex; else empty.
  weights_origin init;        ///< Where the first weights come from.
  std::vector<change> changes;

  bool operator==(const run_description&) const = default;
};

/// One difference between two descriptions.
struct difference {
  std::string key;  ///< The setting's key; empty for data and network.
  std::string what; ///< "[training] seed", "training samples"
  std::string run;  ///< What the run has; empty: not set.
  std::string here; ///< What this node has.
};

/// Which settings may differ.
enum class relation : uint8_t {
  /// For a node that joins: settings that only the parameter server acts on.
  join,
  /// For a start that resumes a run: the same, and the number of shards.
  resume
};

/// All differences of `here` from `run`, settings first. What one of them does
/// not know, or what `how` allows to differ, is left out.
std::vector<difference> differences(const run_description& run,
                                    const run_description& here, relation how);

/// A value as shown to the user, or "(not set)".
std::string or_not_set(const std::string& value);

/// "training samples: 1437 there, 1000 here"
std::string to_string(const difference& found);

/// Whether `--change` may change this setting. It may not where that would
/// invalidate the account of samples, or the weights themselves.
bool may_change(std::string_view id);

} // namespace troupe::config
