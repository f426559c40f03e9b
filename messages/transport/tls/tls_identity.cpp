#include "messages/transport/tls/tls_identity.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "messages/transport/tls/tls_material.hpp"
#include "messages/transport/tls/tls_session.hpp"

#include <sys/stat.h>

namespace troupe::transport {

namespace {

namespace fs = std::filesystem;

/// What changes when somebody writes or replaces the file.
std::string state_of(const fs::path& path) {
  struct stat about {};
  if (path.empty() || ::stat(path.c_str(), &about) != 0)
    return "-";
  std::string out;
  for (auto each : {static_cast<uint64_t>(about.st_dev),
                    static_cast<uint64_t>(about.st_ino),
                    static_cast<uint64_t>(about.st_size),
                    static_cast<uint64_t>(about.st_mtim.tv_sec),
                    static_cast<uint64_t>(about.st_mtim.tv_nsec),
                    static_cast<uint64_t>(about.st_ctim.tv_sec),
                    static_cast<uint64_t>(about.st_ctim.tv_nsec)})
    out += std::to_string(each) + " ";
  return out;
}

std::string state_of(const tls_terms& terms) {
  return state_of(terms.cert) + state_of(terms.key) + state_of(terms.ca);
}

tls_terms checked(tls_terms terms) {
  if (terms.cert.empty() != terms.key.empty())
    throw usage_error("--tls-cert and --tls-key belong together: give both, or "
                      "--tls-dir with both files");
  if (terms.cert.empty() && terms.ca.empty() && terms.pin.empty())
    throw usage_error("TLS needs to know whom to believe: give --tls-dir, "
                      "--tls-ca or --tls-pin");
  if (terms.pin.empty())
    return terms;
  auto pin = parse_fingerprint(terms.pin);
  if (pin.empty())
    throw usage_error("--tls-pin " + config::shown(terms.pin) +
                      ": must be a SHA-256 of 64 hex digits, as trainer_node "
                      "pki show prints it");
  terms.pin = pin;
  return terms;
}

} // namespace

tls_terms terms_of_folder(const fs::path& folder) {
  tls_terms out;
  out.cert = folder / "tls.crt";
  out.key = folder / "tls.key";
  out.ca = folder / "ca.crt";
  return out;
}

tls_identity::tls_identity(tls_terms terms)
  : terms_(checked(std::move(terms))), seen_(state_of(terms_)),
    material_(read_material(terms_)) {
  // nop
}

tls_identity::~tls_identity() = default;

std::vector<std::string> tls_identity::warnings() const {
  return material()->warnings;
}

std::vector<std::string> tls_identity::refresh() {
  std::lock_guard one{refreshing_};
  // Looked at before they are read: what is written meanwhile is seen the next
  // time.
  auto state = state_of(terms_);
  if (state == seen_)
    return {};
  seen_ = state;
  try {
    auto fresh = read_material(terms_);
    auto lines = fresh->warnings;
    if (fresh->own)
      lines.insert(lines.begin(),
                   terms_.cert.string() +
                     ": was read again, new connections show it; it is valid "
                     "until " +
                     date_text(fresh->own->not_after));
    else
      lines.insert(lines.begin(), terms_.ca.string() +
                                    ": was read again, for new connections");
    std::lock_guard guard{mutex_};
    material_ = std::move(fresh);
    return lines;
  } catch (const failure& why) {
    return {std::string{why.what()} +
            " (what was read before goes on to be used)"};
  }
}

std::shared_ptr<const certificate_facts> tls_identity::own() const {
  return material()->own;
}

bool tls_identity::can_accept() const {
  return !terms_.cert.empty();
}

bool tls_identity::can_connect() const {
  return !terms_.ca.empty() || !terms_.pin.empty();
}

std::unique_ptr<tls_session> tls_identity::accept(int fd) const {
  return std::make_unique<tls_session>(material(), fd, "");
}

std::unique_ptr<tls_session>
tls_identity::connect(int fd, const std::string& host) const {
  return std::make_unique<tls_session>(material(), fd, host);
}

std::shared_ptr<const tls_material> tls_identity::material() const {
  std::lock_guard guard{mutex_};
  return material_;
}

} // namespace troupe::transport
