#include "config/values/external.hpp"

#include "config/text/call_schema.hpp"
#include "config/text/text.hpp"

namespace troupe::config {

namespace {

/// The order of an epoch is 8 bytes for each sample.
constexpr uint64_t most_samples = uint64_t{1} << 32;

const call_schema external_schema{
  "external",
  {{"samples", "N", "for training", whole(1, most_samples)},
   {"id", "NAME", "that tells these samples from others", any_text(), "data"}}};

} // namespace

bool is_external(std::string_view text) {
  return name_of_call(text) == "external";
}

external_data parse_external(std::string_view text) {
  auto values = read_arguments(external_schema, trim(text));
  return {values.whole("samples"), values.text("id")};
}

std::string to_string(const external_data& dataset) {
  return "external(samples=" + std::to_string(dataset.samples) +
         ",id=" + dataset.id + ")";
}

} // namespace troupe::config
