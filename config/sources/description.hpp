#pragma once
// What a run is, in one value: the settings of the cluster, the data, the
// network, and which life of the parameter server speaks. Checkpoints, event
// logs and the handshake carry it; whoever resumes, joins, reconnects, follows
// or replays compares it with what is here, by `differences` and nothing else.
//
// Plain values without actors, files or clocks: any thread may use its own.

#include "config/sources/shared_settings.hpp"

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

/// The data as a node sees it. What is empty or 0 is not known there.
struct data_description {
  std::string name;
  uint64_t classes = 0;
  std::array<uint64_t, 3> shape{}; ///< C, H, W of a sample.
  /// Not known where each worker has files of its own.
  std::optional<data_part> train;
  std::optional<data_part> test;

  bool operator==(const data_description&) const = default;
};

struct run_description {
  std::string run_id;
  uint32_t life = 0;          ///< Of the parameter server.
  pairs settings;             ///< Of the cluster; those that are known.
  data_description data;      ///< What it is trained on and scored with.
  std::string network_sha256; ///< Of the file of a script, in hex; else empty.
  std::vector<change> changes;

  bool operator==(const run_description&) const = default;
};

/// Where one description says otherwise than another.
struct difference {
  std::string key;  ///< Of a setting; empty for data and network.
  std::string what; ///< "[training] seed", "training samples"
  std::string run;  ///< What the run has; empty: not set.
  std::string here; ///< What is here.
};

/// What one side may have otherwise than the other.
enum class relation : uint8_t {
  /// A node that joins: what only the parameter server acts on.
  join,
  /// A start that goes on: the same, and how many shards there are.
  resume
};

/// All in which `here` differs from `run`, settings first. What one of them
/// does not know does not differ; neither does what the relation leaves free.
std::vector<difference> differences(const run_description& run,
                                    const run_description& here, relation how);

/// A value for the user: as it is, or "(not set)".
std::string or_not_set(const std::string& value);

/// "training samples: 1437 there, 1000 here"
std::string to_string(const difference& what);

/// Whether `--change` may give this setting another value. It may not where
/// the account of samples, or the weights themselves, would mean nothing.
bool may_change(std::string_view id);

} // namespace troupe::config
