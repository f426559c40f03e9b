// A program whose optimiser has the name of one of ours.

#include "models/optim/registration.hpp"

namespace {

const troupe::models::register_optimizer mine{
  {{.name = "adam",
    .slots = [](const auto&) -> uint64_t {
      return 0;
    }},
   [](const auto& settings, const auto& layout, auto groups) {
     return troupe::models::make_optimizer(settings, layout, std::move(groups));
   }}};

} // namespace
