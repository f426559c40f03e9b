#pragma once
// Nodes with certificates, and connections between two of them.

#include "apps/pki/authority.hpp"
#include "messages/path_error.hpp"
#include "messages/transport/tls/tls_identity.hpp"
#include "messages/transport/tls/tls_session.hpp"
#include "tests/support/sockets.hpp"
#include "tests/support/temporary_folder.hpp"

#include <sys/stat.h>

#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

using app::to_pem;
using transport::tls_identity;
using transport::tls_session;
using transport::tls_terms;
using transport::tls_wait;

inline constexpr std::time_t day = 86'400;
inline constexpr std::time_t year = 365 * day;

/// Valid from an hour ago for 90 days.
inline app::certificate_draft draft_of(std::string name,
                                       std::vector<std::string> roles = {},
                                       std::vector<std::string> hosts = {}) {
  app::certificate_draft out;
  out.name = std::move(name);
  out.roles = std::move(roles);
  out.hosts = std::move(hosts);
  out.not_before = std::time(nullptr) - 3600;
  out.not_after = std::time(nullptr) + 90 * day;
  return out;
}

inline app::certificate_draft authority_draft(std::string name) {
  auto out = draft_of(std::move(name));
  out.is_authority = true;
  out.not_before -= 5 * year;
  out.not_after += 5 * year;
  return out;
}

/// The CA of the tests, and another one.
inline const app::key_holder& own_authority() {
  static const auto made = make_holder(authority_draft("Test CA"), nullptr);
  return made;
}

inline const app::key_holder& other_authority() {
  static const auto made = make_holder(authority_draft("Other CA"), nullptr);
  return made;
}

/// A folder with the three files of a node.
class node_folder {
public:
  explicit node_folder(const app::certificate_draft& draft,
                       const app::key_holder& issuer = own_authority())
    : node_folder(make_holder(draft, &issuer), issuer) {
    // nop
  }

  node_folder(const app::key_holder& node, const app::key_holder& issuer) {
    write("tls.crt", to_pem(node.certificate.get()));
    write("tls.key", to_pem(node.key.get()));
    write("ca.crt", to_pem(issuer.certificate.get()));
  }

  void write(const std::string& name, const std::string& text) {
    testing::spill(folder_ / name, text);
    ::chmod((folder_ / name).c_str(), 0600);
  }

  std::filesystem::path operator/(const std::string& name) const {
    return folder_ / name;
  }

  tls_terms terms() const { return transport::terms_of_folder(folder_.path()); }

private:
  testing::temporary_folder folder_;
};

inline app::certificate_draft server_draft() {
  return draft_of("ps-0", {"ps"}, {"localhost", "127.0.0.1"});
}

inline app::certificate_draft worker_draft() {
  return draft_of("worker-0", {"worker"});
}

inline node_folder server_folder() {
  return node_folder{server_draft()};
}

inline node_folder worker_folder() {
  return node_folder{worker_draft()};
}

/// Two sessions over a pair of sockets.
struct tls_pair {
  tls_pair(const tls_identity& dials, const tls_identity& accepts,
           const std::string& host = "localhost")
    : sockets(socket_pair()),
      dialling(dials.connect(sockets.first.get(), host)),
      accepting(accepts.accept(sockets.second.get())) {
    // nop
  }

  std::pair<transport::socket, transport::socket> sockets;
  std::unique_ptr<tls_session> dialling;
  std::unique_ptr<tls_session> accepting;
};

/// What each end has complained of; empty: nothing.
struct complaints {
  std::string dialling;
  std::string accepting;

  bool none() const { return dialling.empty() && accepting.empty(); }
};

/// Goes on until both are done or have failed; as far as neither has, says so.
inline complaints shake_hands(tls_pair& both) {
  complaints out;
  auto step = [](tls_session& of, std::string& line) {
    try {
      return of.handshake() == tls_wait::nothing;
    } catch (const transport::path_error& why) {
      line = why.what();
      return true;
    }
  };
  for (auto left = 20, done = 0; left > 0 && done < 2; --left) {
    done = (out.dialling.empty() && step(*both.dialling, out.dialling)) +
           (out.accepting.empty() && step(*both.accepting, out.accepting));
    if (!out.none() && left > 3)
      left = 3; // The other end hears of it.
  }
  return out;
}

/// The line that reading throws; empty if it throws none.
inline std::string reading_complaint(tls_session& from) {
  try {
    std::byte one;
    from.read({&one, 1});
    return {};
  } catch (const transport::path_error& why) {
    return why.what();
  }
}

/// Also what the dialling end finds out by its first read.
inline complaints meet(const tls_identity& dials, const tls_identity& accepts,
                       const std::string& host = "localhost") {
  tls_pair both{dials, accepts, host};
  auto out = shake_hands(both);
  if (out.dialling.empty() && !out.accepting.empty())
    out.dialling = reading_complaint(*both.dialling);
  return out;
}

} // namespace troupe::test
