#pragma once
// Registers an aggregation policy of your own under a name, like the policies
// that Troupe brings. It takes a class that derives from `policy`, and one
// object in a source file of your program:
//
//   static const troupe::policies::register_policy mine{{
//     {.schema = {"mine", {{"quorum", "Q", "gradients that make a step",
//                           troupe::config::whole(1, 1000), "2"}}},
//      .sentence = [](const auto& of, uint32_t) {
//        return "a step has the first " + of.text("quorum") + " gradients";
//      },
//      .gradients_per_step = [](const auto& of, uint32_t) {
//        return of.whole("quorum");
//      },
//      .versions_behind = [](const auto&, uint32_t workers) -> uint64_t {
//        return workers;
//      }},
//     [](const troupe::policies::policy_spec& spec) {
//       return std::make_unique<my_policy>(spec);
//     }}};
//
// Its parameters then are keys of [policy] and flags, and `--policy mine` works
// wherever `--policy sync` does. tests/policies/conformance.hpp in the source
// tree checks that a policy does what the server expects.
//
// The object has static lifetime and must be made before main begins; not
// thread-safe.

#include "actors/policies/policy.hpp"
#include "config/schema/policies.hpp"

#include <functional>
#include <memory>

namespace troupe::policies {

/// Everything that the program knows of a policy.
struct row {
  config::policy_facts facts;
  std::function<std::unique_ptr<policy>(const policy_spec& spec)> make;
};

class register_policy {
public:
  /// A name that is taken or invalid is reported as `usage_error` when policies
  /// are looked up, because before main nobody could catch it.
  explicit register_policy(row entry);
};

} // namespace troupe::policies
