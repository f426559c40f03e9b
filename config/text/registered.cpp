#include "config/text/registered.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <algorithm>

namespace troupe::config {

namespace {

bool is_plain(const std::string& name) {
  constexpr auto letters = "abcdefghijklmnopqrstuvwxyz"
                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  return !name.empty() && name.front() != '.' && name.front() != '-' &&
         name.find_first_not_of(letters) == std::string::npos;
}

} // namespace

void require_registered(std::string_view kind,
                        std::span<const registered_name> all) {
  for (const auto& each : all) {
    auto shown = "the " + std::string{kind} + " " + in_quotes(each.name) +
                 " that this program registers ";
    if (!is_plain(each.name))
      throw usage_error(shown + "has a name of other characters than letters, "
                                "digits, '-', '_' and '.': rename it");
    if (!each.complete)
      throw usage_error(shown + "lacks a function: give it all of them");
    if (std::ranges::count(all, each.name, &registered_name::name) > 1)
      throw usage_error(shown + "has the name of another: rename it");
  }
}

} // namespace troupe::config
