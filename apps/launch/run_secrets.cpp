#include "apps/launch/run_secrets.hpp"

#include "apps/pki/authority.hpp"
#include "config/text/failure.hpp"
#include "messages/transport/tls/certificate.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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
  config::descriptor file{memfd_create("troupe", MFD_CLOEXEC)};
  auto done = file.get() >= 0 && fchmod(file.get(), S_IRUSR) == 0 &&
              write(file.get(), text.data(), text.size()) ==
                static_cast<ssize_t>(text.size());
  if (!done)
    throw run_error(std::string{"cannot keep the token of the run: "} +
                    std::strerror(errno));
  files_.push_back(std::move(file));
  return "/proc/" + std::to_string(getpid()) + "/fd/" +
         std::to_string(files_.back().get());
}

} // namespace troupe::app
