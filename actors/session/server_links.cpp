#include "actors/session/server_links.hpp"

#include "actors/links/chunk_channel.hpp"
#include "actors/links/compressing_link.hpp"
#include "actors/links/framed_link.hpp"
#include "actors/links/joined_gradient_stream.hpp"
#include "actors/links/joined_link.hpp"
#include "actors/links/path_channel.hpp"
#include "actors/runtime/spawning.hpp"
#include "config/schema/paths.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>

namespace troupe {

namespace {

/// How gradients for this server are compressed; null: not at all.
transport::codec_ptr codec_of(const proto::Welcome& welcome) {
  config::compression how;
  for (const auto& one : welcome.description().settings())
    if (one.key() == "cluster.compression")
      how = config::parse_compression(one.value());
  if (how.kind == config::compression_kind::none)
    return nullptr;
  auto numbers = welcome.compressed_parameters();
  auto rest = welcome.parameters() - numbers;
  const auto& fragments = welcome.fragments();
  if (numbers > welcome.parameters() ||
      (!fragments.empty() && *fragments.rbegin() < rest))
    throw transport::path_error("its numbers of parameters do not agree");
  return transport::make_codec(
    how, numbers, rest,
    {fragments.data(), static_cast<size_t>(fragments.size())});
}

/// Whether workers compute the network in segments.
bool has_segments(const proto::Welcome& welcome) {
  for (const auto& one : welcome.description().settings())
    if (one.key() == "parallel.mode")
      return one.value() != config::print(config::parallel_mode::data_parallel);
  return false;
}

/// Whether fragments of these sizes are all of so many elements.
bool are_all(std::span<const uint64_t> sizes, uint64_t elements) {
  for (auto size : sizes) {
    if (size > elements)
      return false;
    elements -= size;
  }
  return elements == 0;
}

} // namespace

void server_links::add(const config::address& at) {
  server next;
  next.at = at;
  all_.push_back(std::move(next));
}

std::optional<size_t> server_links::next() const {
  auto found =
    std::ranges::find_if(all_, [](const server& one) { return !one.link; });
  if (found == all_.end())
    return std::nullopt;
  return static_cast<size_t>(found - all_.begin());
}

void server_links::describe(size_t index, const proto::Welcome& welcome,
                            bool is_worker) {
  auto& one = all_[index];
  one.weights = {static_cast<element_type>(welcome.element_type()),
                 welcome.parameters()};
  one.activations = {one.weights.type, welcome.activations()};
  one.fragments.assign(welcome.fragments().begin(), welcome.fragments().end());
  if (!one.fragments.empty() && !are_all(one.fragments, one.weights.count))
    throw transport::path_error("its fragments are not what it has");
  if (is_worker)
    one.codec = codec_of(welcome);
}

transport::path_terms server_links::terms(size_t index,
                                          const proto::Welcome& welcome,
                                          bool is_worker,
                                          config::overlap_rule overlap) const {
  const auto& one = all_[index];
  transport::path_terms out{one.weights};
  out.whole = {one.weights.type, welcome.region()};
  out.sent = one.codec ? one.codec->compressed() : one.weights;
  out.most_activations = welcome.activations();
  out.has_fragments = !one.fragments.empty();
  // Segments begin on complete weights, and end together.
  if (is_worker && !has_segments(welcome))
    out.overlap = overlap;
  // Parts of an answer are joined when they are complete.
  out.in_use_early = all_.size() == 1;
  return out;
}

const framed_link_actor& server_links::tie(size_t index,
                                           const gateway_actor& gateway,
                                           transport::path_ptr way) {
  auto& one = all_[index];
  one.path = way ? way->name() : config::actor_connection;
  if (way && way->early_gradients())
    one.way.early = {way, way->early_gradients()};
  one.way.from_device = way && way->sends_from_device();
  one.link = spawn<framed_link_actor, framed_link_state>(
    system_, placement::scheduled, gateway,
    way ? make_path_channel(std::move(way))
        : make_chunk_channel(one.weights, gateway, one.activations,
                             !one.fragments.empty()),
    one.weights);
  return one.link;
}

// The lead has the last part of the weights.
auto server_links::in_order() const -> std::vector<server> {
  auto out = all_;
  std::rotate(out.begin(), out.begin() + 1, out.end());
  return out;
}

std::vector<uint64_t> server_links::counts_with_feedback() const {
  const auto& codec = all_.front().codec;
  if (!codec || !codec->how().has_error_feedback())
    return {};
  std::vector<uint64_t> out;
  for (const auto& one : in_order())
    std::ranges::copy(one.codec->numbers_of_fragments(),
                      std::back_inserter(out));
  return out;
}

parameter_server_actor
server_links::join(const std::shared_ptr<error_feedback>& feedback,
                   const node_exchange& exchange) {
  joined_link_parts parts;
  parts.exchange = exchange;
  size_t ranges = 0; // Of the error feedback.
  for (const auto& one : in_order()) {
    parameter_server_actor to = one.link;
    if (one.codec) {
      to = spawn_compressing_link(system_,
                                  {to, one.codec, feedback, ranges, false});
      ranges += one.codec->fragments();
    }
    parts.type = one.weights.type;
    parts.parts.push_back({to, one.weights.count, one.fragments});
  }
  if (parts.parts.size() == 1)
    return parts.parts.front().link;
  return parameter_server_actor{spawn<readable_module_actor, joined_link_state>(
    system_, placement::scheduled, std::move(parts))};
}

// Gradients that are compressed first are not sent early on any path.
gradient_way
server_links::way_of_gradients(const node_exchange& exchange) const {
  if (all_.size() == 1)
    return all_.front().way;
  gradient_way out{nullptr, true};
  std::vector<joined_gradient_stream::part> parts;
  auto any = false;
  for (const auto& one : in_order()) {
    parts.push_back({one.way.early, one.weights});
    any |= one.way.early != nullptr;
    out.from_device &= one.way.from_device;
  }
  out.from_device |= static_cast<bool>(exchange);
  if (any && !out.from_device) // What stays on the GPU is not sent in pieces.
    out.early = std::make_shared<joined_gradient_stream>(std::move(parts));
  return out;
}

std::string server_links::paths() const {
  std::set<std::string> all;
  std::string out;
  for (const auto& one : all_)
    if (all.insert(one.path).second)
      out += (out.empty() ? "" : "+") + one.path;
  return out;
}

} // namespace troupe
