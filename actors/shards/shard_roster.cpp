#include "actors/shards/shard_roster.hpp"

#include <utility>

namespace troupe {

void shard_roster::open(std::vector<config::address> all) {
  std::lock_guard guard{mutex_};
  all_ = std::move(all);
  missing_.clear();
}

void shard_roster::wait_for(std::vector<shard_id> missing) {
  std::lock_guard guard{mutex_};
  missing_ = std::move(missing);
}

std::optional<std::vector<config::address>> shard_roster::all() const {
  std::lock_guard guard{mutex_};
  return all_;
}

std::string shard_roster::missing() const {
  std::lock_guard guard{mutex_};
  std::string out = missing_.size() == 1 ? "parameter server shard "
                                         : "parameter server shards ";
  for (size_t i = 0; i < missing_.size(); ++i)
    out += (i == 0 ? "" : ", ") + to_string(missing_[i]);
  return out;
}

} // namespace troupe
