#pragma once
// Starts clusters of peers: every process is a worker and a shard.

#include "tests/process/process_fixture.hpp"

#include <string>
#include <vector>

namespace troupe::testing {

/// What any peer is started with.
/// @param meet As in --init-method; empty: at the port of the fixture.
inline flags peer_flags(const process_fixture& on, const std::string& meet) {
  return {
    "--role",        "auto",
    "--topology",    "peers",
    "--train-dir",   on.run().string(),
    "--threads",     "1",
    "--init-method", meet.empty() ? "tcp://127.0.0.1:" + on.port() : meet};
}

inline flags recording(const process_fixture& on) {
  return on.is_recorded() ? flags{"--tape", "--keep", "100000"} : flags{};
}

inline child start_peer(process_fixture& on, int rank, int peers,
                        const flags& more, const std::string& meet = {}) {
  return on.start("peer", peer_flags(on, meet) + recording(on) +
                            flags{"--rank", std::to_string(rank), "--workers",
                                  std::to_string(peers)} +
                            more);
}

inline std::vector<child> start_peers(process_fixture& on, int peers,
                                      const flags& more,
                                      const std::string& meet = {}) {
  std::vector<child> out;
  for (int rank = 0; rank < peers; ++rank)
    out.push_back(start_peer(on, rank, peers, more, meet));
  return out;
}

/// Comes to a run that is under way.
inline child join_peers(process_fixture& on, const flags& more,
                        const std::string& meet = {}) {
  return on.start("joiner", peer_flags(on, meet) + recording(on) +
                              flags{"--join"} + more);
}

} // namespace troupe::testing
