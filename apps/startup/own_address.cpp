#include "apps/startup/own_address.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "messages/transport/wire/host_address.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

namespace troupe::app {

using transport::host_text;

// Nothing is sent: connecting a datagram socket only chooses the way.
std::string address_towards(const std::string& host) try {
  constexpr uint16_t any_port = 9;
  auto all = transport::look_up(host, any_port, 0);
  for (const auto* one = all.get(); one != nullptr; one = one->ai_next) {
    config::descriptor line{
      ::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    sockaddr_storage here{};
    socklen_t size = sizeof here;
    auto* at = reinterpret_cast<sockaddr*>(&here);
    if (connect(line.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        getsockname(line.get(), at, &size) == 0)
      return host_text(*at);
  }
  throw run_error("there is no way to the host " + host + ": " +
                  std::strerror(errno));
} catch (const transport::path_error& why) {
  throw run_error(why.what());
}

namespace {

bool is_of_one_wire(const sockaddr& where) {
  return where.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(
           &reinterpret_cast<const sockaddr_in6&>(where).sin6_addr);
}

bool has_address(const std::string& host, const std::string& address) try {
  auto all = transport::look_up(host, 0, 0);
  for (const auto* one = all.get(); one != nullptr; one = one->ai_next)
    if (host_text(*one->ai_addr) == address)
      return true;
  return false;
} catch (const transport::path_error& why) {
  throw run_error(why.what());
}

} // namespace

std::string address_of_interface(const std::string& name) {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0)
    throw run_error(
      "--interface " + config::shown(name) +
      ": the interfaces cannot be listed: " + std::strerror(errno));
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all{found, &freeifaddrs};
  std::set<std::string> names;
  std::string out;
  for (const auto* one = all.get(); one != nullptr; one = one->ifa_next) {
    names.insert(one->ifa_name);
    const auto* where = one->ifa_addr;
    if (one->ifa_name != name || where == nullptr || is_of_one_wire(*where))
      continue;
    auto is_ipv4 = where->sa_family == AF_INET;
    if (is_ipv4 || (out.empty() && where->sa_family == AF_INET6))
      out = host_text(*where);
    if (is_ipv4)
      return out;
  }
  if (!out.empty())
    return out;
  if (names.contains(name))
    throw run_error("--interface " + config::shown(name) +
                    ": has no address that others could dial");
  std::string known;
  for (const auto& each : names)
    known += (known.empty() ? "" : ", ") + each;
  throw run_error("--interface " + config::shown(name) +
                  ": there is no such interface; this machine has " + known);
}

config::address listens_at(const config::cluster_settings& cluster) {
  if (!cluster.listen.empty())
    return config::parse_address(cluster.listen);
  auto is_peer = cluster.topology == config::topology_kind::peers;
  if (!is_peer || cluster.rank.value_or(0) == 0)
    return {cluster.host, cluster.port};
  config::address out{cluster.interface.empty()
                        ? address_towards(cluster.host)
                        : address_of_interface(cluster.interface),
                      0};
  if (!cluster.leaves_host())
    config::require_loopback(out, "--interface " + cluster.interface);
  return out;
}

config::address advertised_at(const config::cluster_settings& cluster,
                              const config::address& bound, bool leads) {
  auto is_any = config::is_any_host(bound.host);
  if (!cluster.advertise.empty()) {
    auto out = config::parse_host(cluster.advertise);
    return {out.host, out.port == 0 ? bound.port : out.port};
  }
  if (!cluster.interface.empty()) {
    auto host = address_of_interface(cluster.interface);
    if (!is_any && !has_address(bound.host, host))
      throw run_error(
        "--interface " + cluster.interface + ": has " + host +
        ", where this node does not listen: it listens at " + bound.host +
        " alone; give --listen 0.0.0.0:" + std::to_string(bound.port) + " or " +
        config::to_string(config::address{host, bound.port}));
    return {host, bound.port};
  }
  if (leads)
    return {cluster.host, cluster.port == 0 ? bound.port : cluster.port};
  return {is_any ? address_towards(cluster.host) : bound.host, bound.port};
}

} // namespace troupe::app
