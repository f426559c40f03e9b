#include "config/text/text.hpp"
#include "messages/type_ids.hpp"

#include <array>

namespace troupe {

namespace {

constexpr std::array<std::string_view, static_cast<size_t>(errc::count_)> names{
  "none",
  "protocol_mismatch",
  "settings_conflict",
  "unknown_member",
  "stale_incarnation",
  "wrong_size",
  "not_finite",
  "duplicate",
  "rank_taken",
  "cancelled",
  "peer_lost",
  "unreachable",
  "shutting_down",
  "timed_out",
  "bad_data",
  "damaged_checkpoint",
  "disk",
  "protocol_violation",
  "expelled",
  "failed"};

/// A peer may send a text of any length; the user's line is limited to this.
constexpr size_t longest_line = 1000;

std::string in_one_line(const std::string& text) {
  auto is_one =
    text.size() <= longest_line && !config::has_control_character(text);
  return is_one ? text : config::shown(text);
}

} // namespace

std::string to_string(errc code) {
  auto index = static_cast<size_t>(code);
  return std::string{index < names.size() ? names[index] : "invalid"};
}

bool from_string(caf::string_view text, errc& code) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == std::string_view{text.data(), text.size()}) {
      code = static_cast<errc>(i);
      return true;
    }
  }
  return false;
}

bool from_integer(uint8_t number, errc& code) {
  if (number >= names.size())
    return false;
  code = static_cast<errc>(number);
  return true;
}

// Errors come from peers, too. CAF's own rendering takes the code for a value
// of the type that the category names, and there may be others inside.
std::string text_of(const caf::error& err) {
  if (!err)
    return "none";
  if (const auto& context = err.context();
      context && context.match_elements<std::string>())
    return in_one_line(context.get_as<std::string>(0));
  switch (err.category()) {
  case caf::type_id_v<errc>:
    return to_string(static_cast<errc>(err.code()));
  case caf::type_id_v<caf::sec>:
    return caf::to_string(static_cast<caf::sec>(err.code()));
  case caf::type_id_v<caf::exit_reason>:
    return caf::to_string(static_cast<caf::exit_reason>(err.code()));
  default:
    return "an error of an unknown kind";
  }
}

} // namespace troupe
