#include "config/schema/optimizers.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::config {

namespace {

std::vector<optimizer_facts>& added_optimizers() {
  static std::vector<optimizer_facts> all;
  return all;
}

/// Errors in registrations are reported at the first look-up.
std::vector<std::string> distinct_names() {
  std::vector<std::string> out;
  for (const auto& each : added_optimizers()) {
    auto shown =
      "the optimizer " + in_quotes(each.name) + " that this program registers ";
    if (each.name.empty() ||
        each.name.find_first_of("(),=: ") != std::string::npos || !each.slots)
      throw usage_error(shown + "has no name of letters, digits and '-', or "
                                "does not say how many slots it has");
    if (std::ranges::count(out, each.name) > 0)
      throw usage_error(shown + "is there already");
    out.push_back(each.name);
  }
  return out;
}

} // namespace

void add_optimizer(optimizer_facts what) {
  added_optimizers().push_back(std::move(what));
}

std::span<const std::string> known_optimizers() {
  static const auto names = distinct_names();
  return names;
}

const optimizer_facts* find_optimizer(const std::string& name) {
  if (std::ranges::count(known_optimizers(), name) == 0)
    return nullptr;
  return &*std::ranges::find(added_optimizers(), name, &optimizer_facts::name);
}

} // namespace troupe::config
