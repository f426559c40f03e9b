#include "messages/transport/registry.hpp"

#include "messages/transport/nccl/nccl_row.hpp"
#include "messages/transport/shm/shm_carrier.hpp"
#include "messages/transport/stream/stream_carrier.hpp"

#include <algorithm>
#include <vector>

namespace troupe::transport {

namespace {

/// Within a process tensors are handed over as they are.
path_row inproc_row() {
  path_row out;
  out.facts.name = "inproc";
  out.facts.across = config::reach::process;
  out.facts.automatic = false;
  return out;
}

/// Sends tensors in messages of the actor connection, which every peer has.
path_row chunked_row() {
  path_row out;
  out.facts.name = config::actor_connection;
  out.offered = [](const proto::PathOffer&) {
    return true;
  };
  return out;
}

const std::vector<path_row>& table() {
  static const auto all = [] {
    std::vector<path_row> out{inproc_row(), shm_row(), stream_row(), nccl_row(),
                              chunked_row()};
    for (const auto& each : out)
      config::add_path(each.facts);
    return out;
  }();
  return all;
}

/// Static, so that config knows the kinds of path before main begins.
[[maybe_unused]] const auto& known = table();

} // namespace

std::span<const path_row> path_rows() {
  return table();
}

const path_row* find_row(std::string_view name) {
  auto found = std::ranges::find(table(), name, [](const path_row& each) {
    return std::string_view{each.facts.name};
  });
  return found == table().end() ? nullptr : &*found;
}

} // namespace troupe::transport

// Named on the link line, so that every program has this source.
extern "C" {
extern const int troupe_paths_are_known;
const int troupe_paths_are_known = 1;
}
