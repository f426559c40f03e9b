#pragma once
// The addresses of the shards, once all are connected; until then, which are
// missing. The registrar writes it; admissions and main read it. Thread-safe.

#include "config/values/address.hpp"
#include "messages/ids.hpp"

#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

class shard_roster {
public:
  /// All shards are connected; `all` is ordered by rank.
  void open(std::vector<config::address> all);

  /// The shards of these ranks are missing.
  void wait_for(std::vector<shard_id> missing);

  /// The addresses; nothing while shards are missing.
  std::optional<std::vector<config::address>> all() const;

  /// The missing shards, for the user: "parameter server shards 1, 3".
  std::string missing() const;

private:
  mutable std::mutex mutex_;
  std::optional<std::vector<config::address>> all_;
  std::vector<shard_id> missing_;
};

} // namespace troupe
