#include "actors/path_choice.hpp"

#include "config/failure.hpp"
#include "messages/transport/meeting.hpp"
#include "messages/transport/shm_path.hpp"
#include "messages/transport/stream_path.hpp"

#include <utility>

namespace troupe {

namespace {

/// s for a connection, and again for its welcome: the server has just answered
/// on another.
constexpr double patience = 3;

} // namespace

bool offers(const proto::PathOffer& offer, const std::string& name) {
  if (name == "shm")
    return !offer.shm_name().empty();
  return name == "chunked" || (name == "stream" && offer.stream_port() != 0);
}

path_choice::path_choice(std::string wanted,
                         std::shared_ptr<transport::shared_memory> memory,
                         std::function<void(const std::string&)> say)
  : wanted_(std::move(wanted)), memory_(std::move(memory)),
    say_(std::move(say)) {
  // nop
}

bool path_choice::takes(const std::string& name) const {
  return wanted_ == name || (wanted_ == "auto" && !broken_.contains(name));
}

bool path_choice::skip(const std::string& name) {
  return wanted_ != name && broken_.insert(name).second;
}

transport::path_ptr
path_choice::open_shm(const proto::PathOffer& offer,
                      const transport::path_terms& terms) const {
  auto line = transport::connect_unix(offer.shm_name());
  transport::introduce(line, offer.token(), patience);
  return std::make_shared<transport::shm_path>(std::move(line), terms, memory_,
                                               true);
}

transport::path_ptr
path_choice::open_stream(const proto::PathOffer& offer, const std::string& host,
                         const transport::path_terms& terms) const {
  auto line = transport::connect_stream(
    host, static_cast<uint16_t>(offer.stream_port()), patience);
  transport::introduce(line, offer.token(), patience);
  return std::make_shared<transport::stream_path>(std::move(line), terms);
}

/// Without memory for a gradient the path would break at the first.
void path_choice::look_for_memory(uint64_t bytes) {
  if (!takes("shm"))
    return;
  auto trouble = memory_ ? transport::shared_memory::trouble(bytes)
                         : std::optional<std::string>{"not wanted here"};
  if (!trouble)
    return;
  if (wanted_ == "shm")
    throw run_error("--transport shm: " + *trouble +
                    "; give this process more memory, or --transport auto");
  if (memory_)
    say_("path         shm is not used: " + *trouble);
  broken_.insert("shm");
}

transport::path_ptr path_choice::connect(const proto::PathOffer& offer,
                                         const std::string& host,
                                         const transport::path_terms& terms) {
  if (wanted_ != "auto" && !offers(offer, wanted_))
    throw run_error("--transport " + wanted_ +
                    ": the parameter server does not offer this path; give "
                    "both nodes the same transport, or auto");
  look_for_memory(terms.most_region_bytes());
  for (const std::string name : {"shm", "stream"}) {
    if (!takes(name) || !offers(offer, name))
      continue;
    try {
      return name == "shm" ? open_shm(offer, terms)
                           : open_stream(offer, host, terms);
    } catch (const transport::path_error&) {
      if (wanted_ == name)
        throw;
    }
  }
  return nullptr;
}

} // namespace troupe
