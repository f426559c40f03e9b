// A program whose data set has the name of one of ours.

#include "data/formats/registration.hpp"

namespace {

const troupe::data::register_dataset mine{
  {.name = "digits",
   .image = "1x28x28",
   .classes = "10",
   .training = "none",
   .files = "",
   .scale = {},
   .load = [](const auto&, uint64_t seed,
              auto) { return troupe::data::load_digits(seed); },
   .survey =
     [](const auto&) {
       return troupe::data::source_survey{};
     }}};

} // namespace
