#include "config/values/address.hpp"

#include "config/text/failure.hpp"
#include "config/text/value.hpp"

#include <algorithm>

namespace troupe::config {

namespace {

/// One number of a dotted quad: 0 to 255, without a sign or blanks.
bool is_octet(std::string_view text) {
  if (text.empty() || text.size() > 3)
    return false;
  auto digit = [](char c) {
    return c >= '0' && c <= '9';
  };
  return std::all_of(text.begin(), text.end(), digit) &&
         parse_unsigned(text, 999) <= 255;
}

bool is_dotted_quad(std::string_view host) {
  for (int i = 0; i < 3; ++i) {
    auto dot = host.find('.');
    if (dot == std::string_view::npos || !is_octet(host.substr(0, dot)))
      return false;
    host.remove_prefix(dot + 1);
  }
  return is_octet(host);
}

} // namespace

address parse_address(std::string_view text) {
  auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0)
    throw bad_value("must be HOST:PORT");
  auto host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    throw bad_value("must be HOST:PORT; an IPv6 host needs brackets: "
                    "[::1]:4242");
  if (host.empty())
    throw bad_value("must be HOST:PORT");
  return {std::string{host}, parse<uint16_t>(text.substr(colon + 1))};
}

address parse_host(std::string_view text) {
  auto colons = std::ranges::count(text, ':');
  auto is_bare = text.starts_with('[') ? text.ends_with(']') : colons != 1;
  if (!is_bare) {
    auto out = parse_address(text);
    if (out.port == 0)
      throw bad_value("must be HOST or HOST:PORT, with a port above 0");
    return out;
  }
  if (text.starts_with('['))
    text = text.substr(1, text.size() - 2);
  if (text.empty())
    throw bad_value("must be HOST or HOST:PORT");
  return {std::string{text}, 0};
}

std::string to_string(const address& where) {
  auto result = where.host;
  if (result.find(':') != std::string::npos)
    result.insert(0, 1, '[').push_back(']');
  result += ':';
  return result += std::to_string(where.port);
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && is_dotted_quad(host));
}

bool is_any_host(std::string_view host) {
  return host == "0.0.0.0" || host == "::";
}

void require_loopback(const address& where, const std::string& from) {
  if (!is_loopback(where.host))
    throw usage_error(to_string(where) + ", which " + from + " names, " +
                      open_to_all);
}

} // namespace troupe::config
