#include "apps/launch/run_secrets.hpp"

#include "apps/pki/authority.hpp"
#include "messages/transport/tls/certificate.hpp"
#include "messages/transport/wire/meeting.hpp"

namespace troupe::app {

namespace {

/// Longer than any launch.
constexpr uint64_t days_of_certificate = 3650;

} // namespace

std::string run_secrets::make_token() {
  return keep(transport::random_name());
}

run_secrets::identity run_secrets::make_identity(const std::string& host) {
  certificate_draft draft;
  draft.name = "troupe launch";
  draft.hosts = {host};
  draft.roles = {"ps"};
  set_dates(draft, days_of_certificate, nullptr);
  auto made = make_holder(draft, nullptr);
  return {keep(to_pem(made.certificate.get())), keep(to_pem(made.key.get())),
          transport::facts_of(made.certificate.get()).fingerprint};
}

std::string run_secrets::keep(std::string_view text) {
  auto out = files_.keep(text);
  texts_.emplace(out, text);
  return out;
}

} // namespace troupe::app
