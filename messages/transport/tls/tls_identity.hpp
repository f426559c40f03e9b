#pragma once
// The certificate, the key and the CAs of this node, read from files, and read
// again when they change. One for a process; any thread.

#include "messages/transport/tls/certificate.hpp"
#include "messages/transport/tls/tls_terms.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe::transport {

class tls_session;
struct tls_material;

class tls_identity {
public:
  /// Reads and checks the files. Throws `run_error` for what is wrong with
  /// them, and `usage_error` for terms that do not belong together.
  explicit tls_identity(tls_terms terms);

  ~tls_identity();

  /// Lines about what is doubtful and no error: a key that others may read, a
  /// certificate that expires soon. Of the files as they were read last.
  std::vector<std::string> warnings() const;

  /// Looks whether the files have changed, which costs a system call for each.
  /// New ones are for later connections. Returns lines for the user: that they
  /// are used, or why the old ones go on. A bad file is told of once.
  std::vector<std::string> refresh();

  /// What this node shows; nothing if it has no certificate.
  std::shared_ptr<const certificate_facts> own() const;

  /// Whether `accept` can be called, and `connect`.
  bool can_accept() const;
  bool can_connect() const;

  /// This end of a connection that was accepted. The descriptor stays the
  /// caller's, and must outlive the session. Throws `path_error`.
  std::unique_ptr<tls_session> accept(int fd) const;

  /// This end of a connection to `host`, a name or an address without brackets.
  /// Throws `path_error`.
  std::unique_ptr<tls_session> connect(int fd, const std::string& host) const;

private:
  std::shared_ptr<const tls_material> material() const;

  tls_terms terms_;
  std::mutex refreshing_;
  std::string seen_; ///< The files when they were looked at last.
  mutable std::mutex mutex_;
  std::shared_ptr<const tls_material> material_;
};

} // namespace troupe::transport
