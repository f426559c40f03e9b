// A policy that Troupe does not know: nobody waits, and so many gradients of
// any version make a step, each weighted by how stale it is (Nguyen et al.
// 2022, "Federated Learning with Buffered Asynchronous Aggregation", AISTATS).
// The step's rate grows with the size of the buffer.

#include <actors/policies/registration.hpp>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace {

using troupe::config::arguments;
using namespace troupe::policies;

class boosted final : public policy {
public:
  explicit boosted(const policy_spec& spec)
    : size_(spec.parameters.whole("size")),
      boost_(spec.parameters.number("boost")) {
    // nop
  }

  void reset(troupe::version v) override {
    current_ = v;
    members_.clear();
    held_.clear();
  }

  troupe::version current() const override { return current_; }

  decision on_join(std::span<const troupe::worker_id> who) override {
    decision out;
    for (auto id : who)
      if (!members_.emplace(id, true).second)
        throw std::logic_error("joined twice");
    out.release.assign(who.begin(), who.end());
    std::ranges::sort(out.release);
    return out;
  }

  decision on_leave(troupe::worker_id who) override {
    members_.erase(who);
    return {};
  }

  decision on_arrival(const arrival& push) override {
    decision out;
    if (!members_.contains(push.id.worker)) {
      out.drop.push_back(push.id);
      return out;
    }
    held_.emplace(push.id, push.computed_on);
    if (held_.size() >= size_) {
      update step;
      for (const auto& [id, computed_on] : held_)
        step.gradients.push_back(
          {id,
           1.0 / static_cast<double>(1 + current_.value - computed_on.value)});
      step.rate_factor = boost_;
      held_.clear();
      current_ = current_.next();
      out.updates.push_back(std::move(step));
    }
    out.release.push_back(push.id.worker);
    return out;
  }

  decision on_pull(troupe::worker_id who) override {
    decision out;
    if (members_.contains(who))
      out.release.push_back(who);
    return out;
  }

  std::vector<troupe::worker_id> waiting_for() const override { return {}; }

  std::string state() const override {
    return "boosted v=" + to_string(current_) +
           " held=" + std::to_string(held_.size());
  }

private:
  uint64_t size_;
  double boost_;
  troupe::version current_;
  std::map<troupe::worker_id, bool> members_;
  std::map<troupe::push_id, troupe::version> held_; ///< Computed on which.
};

const register_policy mine{
  {{.schema = {"boosted",
               {{"size", "K", "gradients that make a step",
                 troupe::config::whole(1, 1000), "2"},
                {"boost", "X", "of a step's learning rate",
                 troupe::config::number_above(0), "1"}}},
    .sentence =
      [](const arguments& of, uint32_t) {
        return "nobody waits; a step has " + of.text("size") + " gradients";
      },
    .gradients_per_step = [](const arguments& of,
                             uint32_t) { return of.whole("size"); },
    .versions_behind = [](const arguments&,
                          uint32_t workers) { return workers; },
    .compared_as = "boosted:2"},
   [](const policy_spec& spec) {
     return std::make_unique<boosted>(spec);
   }}};

} // namespace
