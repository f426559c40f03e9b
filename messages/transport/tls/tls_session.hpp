#pragma once
// One end of a connection under TLS. Calls never block: they say what to wait
// for, and the caller waits. One thread may read while another writes, since a
// lock is held for one record (16 KiB) at a time.
//
// Errors are `path_error`, whose line says what to do. After one the session is
// of no further use: each later call throws the same line.

#include "messages/transport/tls/openssl.hpp"
#include "messages/transport/tls/peer_check.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace troupe::transport {

/// What the descriptor has to become before the call is made again.
enum class tls_wait : uint8_t { nothing, readable, writable };

/// What a call has moved. Fewer bytes than it could with `nothing` to wait for:
/// the next call says why.
struct tls_progress {
  size_t bytes = 0;
  tls_wait wait = tls_wait::nothing;
  bool ended = false; ///< The other end has said that no more will come.
};

class tls_session {
public:
  /// Made by `tls_identity`.
  /// @param host Whom this end dials; empty: it has accepted.
  tls_session(std::shared_ptr<const tls_material> material, int fd,
              std::string host);

  ~tls_session();

  /// Goes on with the handshake; `nothing`: it is complete. With TLS 1.3 the
  /// other end may then still refuse the certificate of the dialling end, whose
  /// first `read` throws the line about it.
  tls_wait handshake();

  /// Fills `to` as far as bytes are there. Bytes are read ahead, so the caller
  /// polls only after a read that says to wait.
  tls_progress read(std::span<std::byte> to);

  /// Sends as much as there is room for. After `writable` the next call must
  /// begin with the bytes that are left, and bring as many at least.
  tls_progress write(std::span<const std::byte> from);

  /// Whether bytes are here of which the descriptor will not tell: a read that
  /// was filled may have left some.
  bool pending();

  /// Says that no more will be written. `nothing`: it is said, or nobody is
  /// there to hear it.
  tls_wait shut();

  /// Who the other end is. @pre The handshake is complete.
  const tls_peer& peer() const { return check_.peer; }

private:
  class turn;

  void begin(turn& own);
  tls_wait wait_after(int result, size_t moved);
  std::string line_of(int kind, int error);
  bool finds_alert();

  std::shared_ptr<const tls_material> material_;
  peer_check check_;
  std::string failure_; ///< The line of the error that ended it.
  std::mutex mutex_;
  std::atomic<int> waiting_ = 0; ///< Threads that want the lock.
  bool complete_ = false;
  ssl_ptr ssl_;
};

} // namespace troupe::transport
