// All aggregation policies. A new one is a header, a source, its include and
// its line in `registry`; the tests in tests/policies find it here.

#include "actors/policies/async.hpp"
#include "actors/policies/backup.hpp"
#include "actors/policies/ssp.hpp"
#include "actors/policies/sync.hpp"
#include "config/failure.hpp"

namespace troupe::policies {

namespace {

struct entry {
  std::string_view name;
  std::unique_ptr<policy> (*make)(const policy_spec&);
};

template <class Policy>
std::unique_ptr<policy> make(const policy_spec& spec) {
  return std::make_unique<Policy>(spec);
}

template <class Policy>
constexpr entry known{Policy::known_as, make<Policy>};

/// In the order of the documentation.
constexpr entry registry[] = {
  known<sync>,
  known<backup>,
  known<ssp>,
  known<async>,
};

} // namespace

policy::~policy() = default;

std::unique_ptr<policy> make_policy(const policy_spec& spec) {
  std::string names;
  for (auto& x : registry) {
    if (spec.name == x.name)
      return x.make(spec);
    names += names.empty() ? "" : ", ";
    names += x.name;
  }
  throw usage_error("unknown policy '" + spec.name + "': known are " + names);
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> result;
  for (auto& x : registry)
    result.push_back(x.name);
  return result;
}

} // namespace troupe::policies
