#include "actors/shard_crew.hpp"

#include <memory>

namespace troupe {

shard_crew::shard_crew(lead_actor::pointer self,
                       std::vector<shard_actor> others,
                       std::function<void(const caf::error&)> on_trouble)
  : self_(self), others_(std::move(others)),
    on_trouble_(std::move(on_trouble)) {
  // nop
}

void shard_crew::drop(std::vector<push_id> which) {
  if (others_.empty() || which.empty())
    return;
  auto what = number({0, std::move(which), {}, {}});
  for (const auto& shard : others_)
    self_->send(shard, order_atom_v, what);
}

shard_order_ptr shard_crew::number(shard_order what) {
  what.number = ++orders_;
  return std::make_shared<const shard_order>(std::move(what));
}

} // namespace troupe
