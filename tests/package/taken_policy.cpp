// A program whose policy has the name of one of ours.

#include "actors/policies/registration.hpp"

namespace {

const troupe::policies::register_policy mine{
  {{.schema = {"sync", {}}}, [](const troupe::policies::policy_spec& spec) {
     return troupe::policies::make_policy(spec);
   }}};

} // namespace
