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
  "failed",
  "outlier",
  "cluster_full"};

/// A peer may send a text of any length; the user's line is limited to this.
constexpr size_t longest_line = 1000;

/// How an actor has ended, for users, who know no actors.
std::string plain(caf::exit_reason why) {
  switch (why) {
  case caf::exit_reason::user_shutdown:
    return "it was told to end";
  case caf::exit_reason::kill:
    return "it was killed";
  case caf::exit_reason::remote_link_unreachable:
  case caf::exit_reason::unreachable:
    return "the connection is lost";
  default:
    return "it has ended";
  }
}

/// CAF's own errors. Those that should not happen keep their names, for those
/// who look for the cause.
std::string plain(caf::sec code) {
  switch (code) {
  case caf::sec::request_timeout:
  case caf::sec::connection_timeout:
    return "no answer in time";
  case caf::sec::request_receiver_down:
  case caf::sec::broken_promise:
    return "it has ended";
  case caf::sec::no_actor_published_at_port:
  case caf::sec::cannot_connect_to_node:
    return "nobody answers there";
  case caf::sec::disconnect_during_handshake:
  case caf::sec::no_route_to_receiving_node:
  case caf::sec::socket_disconnected:
  case caf::sec::connection_closed:
    return "the connection is lost";
  default:
    break;
  }
  auto name = caf::to_string(code);
  auto colon = name.rfind(':');
  return "an error inside the program: " +
         (colon == std::string::npos ? name : name.substr(colon + 1));
}

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

// A peer may have sent an error whose code and message are not what its
// category says. CAF's own rendering trusts both, so it is not used.
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
    return plain(static_cast<caf::sec>(err.code()));
  case caf::type_id_v<caf::exit_reason>:
    return plain(static_cast<caf::exit_reason>(err.code()));
  default:
    return "an error of an unknown kind";
  }
}

} // namespace troupe
