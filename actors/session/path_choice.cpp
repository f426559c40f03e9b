#include "actors/session/path_choice.hpp"

#include "config/schema/policies.hpp"
#include "config/text/failure.hpp"
#include "messages/transport/nccl/collective_path.hpp"
#include "messages/transport/nccl/nccl_path.hpp"
#include "messages/transport/shm/shm_path.hpp"
#include "messages/transport/stream/stream_path.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <utility>

namespace troupe {

namespace {

/// Seconds for a connection, and again for its welcome: the server has just
/// answered on another connection.
constexpr double patience = 3;

} // namespace

bool offers(const proto::PathOffer& offer, const std::string& name) {
  if (name == "shm")
    return !offer.shm_name().empty();
  if (name == "nccl" && !offer.nccl())
    return false;
  return name == "chunked" || offer.stream_port() != 0;
}

int nccl_device(const transport::nccl::library& lib, bool of_worker) {
  return lib.device().value_or(of_worker ? 1 % lib.devices() : 0);
}

bool adds_up(const config::settings& settings, bool has_statistics) {
  return config::facts_of(settings.policy).summable &&
         (!has_statistics ||
          settings.training.buffers == config::buffers_rule::average);
}

path_choice::path_choice(std::string wanted,
                         std::shared_ptr<transport::shared_memory> memory,
                         std::function<void(const std::string&)> say,
                         transport::nccl::library_ptr nccl)
  : wanted_(std::move(wanted)), memory_(std::move(memory)),
    say_(std::move(say)), nccl_(std::move(nccl)) {
  // nop
}

// NCCL is used only on request; then the stream may take its place.
bool path_choice::takes(const std::string& name, double now) const {
  auto rests = resting_.find(name);
  if ((rests != resting_.end() && now < rests->second) ||
      (name == "shm" && no_memory_))
    return false;
  if (wanted_ == "nccl")
    return (name == "nccl" && nccl_) || name == "stream";
  return wanted_ == name || (wanted_ == "auto" && name != "nccl");
}

bool path_choice::skip(const std::string& name, double now) {
  auto replaced = wanted_ == "auto" || (wanted_ == "nccl" && name == "nccl");
  if (replaced)
    resting_[name] = now + rest;
  return replaced;
}

void path_choice::meet(const std::string& life) {
  if (std::exchange(life_, life) != life)
    resting_.clear();
}

transport::path_ptr
path_choice::open_shm(const proto::PathOffer& offer,
                      const transport::path_terms& terms) const {
  auto line = transport::connect_unix(offer.shm_name());
  transport::introduce(line, offer.token(), patience);
  return std::make_shared<transport::shm_path>(std::move(line), terms, memory_,
                                               true);
}

transport::socket path_choice::connect_stream(const proto::PathOffer& offer,
                                              const std::string& host) const {
  auto line = transport::connect_stream(
    host, static_cast<uint16_t>(offer.stream_port()), patience);
  transport::introduce(line, offer.token(), patience);
  return line;
}

transport::path_ptr
path_choice::open(const std::string& name, const proto::PathOffer& offer,
                  const std::string& host,
                  const transport::path_terms& terms) const {
  if (name == "shm")
    return open_shm(offer, terms);
  auto line = connect_stream(offer, host);
  if (name == "stream")
    return std::make_shared<transport::stream_path>(std::move(line), terms);
  transport::nccl_terms with{nccl_, nccl_device(*nccl_, true), true};
  if (offer.collective())
    return std::make_shared<transport::collective_path>(std::move(line), terms,
                                                        std::move(with));
  return std::make_shared<transport::nccl_path>(std::move(line), terms,
                                                std::move(with));
}

/// Without memory for a gradient the path would break at the first one.
void path_choice::look_for_memory(uint64_t bytes, double now) {
  if (!takes("shm", now))
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
  no_memory_ = true;
}

transport::path_ptr path_choice::connect(const proto::PathOffer& offer,
                                         const std::string& host,
                                         const transport::path_terms& terms,
                                         double now) {
  if (wanted_ != "auto" && !offers(offer, wanted_))
    throw run_error("--transport " + wanted_ +
                    ": the parameter server does not offer this path; give "
                    "both nodes the same transport, or auto");
  look_for_memory(terms.most_region_bytes(), now);
  for (const std::string name : {"shm", "nccl", "stream"}) {
    if (!takes(name, now) || !offers(offer, name))
      continue;
    try {
      return open(name, offer, host, terms);
    } catch (const transport::path_error&) {
      if (wanted_ == name)
        throw;
    }
  }
  return nullptr;
}

} // namespace troupe
