#pragma once
// Sockets of the operating system, closed by their owner's destructor. Threads:
// see each class.

#include "config/text/descriptor.hpp"
#include "messages/path_error.hpp"

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::transport {

class tls_session;
enum class tls_wait : uint8_t;

/// "WHAT: No such file or directory", from errno.
path_error system_error(const std::string& action);

using config::descriptor;

/// A connection, encrypted or not. Whoever owns it uses the descriptor.
struct connection_line {
  descriptor fd;
  std::shared_ptr<tls_session> tls{}; ///< Null: not encrypted.
};

/// Removes `bytes` from the front of the buffers to send or fill.
void drop_front(std::span<iovec>& parts, size_t bytes);

/// A connected stream socket, TCP or Unix, with TLS or without. One thread may
/// send while another receives; any may shut it down. Errors are `path_error`.
class socket {
public:
  /// The kernel's buffer size for a connection, in each direction. Measured on
  /// loopback: see docs/threading.md.
  static constexpr int buffer_bytes = 4 << 20;

  /// Takes over a connection and configures it: no delay, buffers of this size
  /// (0: those that the kernel chooses), and for TCP a timeout after 30 s of
  /// silence.
  /// The handshake of TLS is complete.
  explicit socket(connection_line line, int buffers = buffer_bytes);

  explicit socket(descriptor fd) : socket({std::move(fd), nullptr}) {
    // nop
  }

  /// Gives the connection to somebody else, who does not block.
  connection_line release();

  /// Sends what does not block, or with `wait` everything; `parts` is left with
  /// the rest. A `passed` file is sent with the first byte. Returns the number
  /// of bytes sent.
  size_t send(std::span<iovec>& parts, bool wait, int passed = -1);

  /// Fills all parts. Returns false if the other end closed before the first
  /// byte. Files that were passed are added to `passed`, or closed if it is
  /// null.
  bool receive(std::span<iovec> parts, std::vector<descriptor>* passed);

  /// How long `receive` waits for bytes, and `send` for room, in s; 0: forever.
  void patience(double seconds);

  /// Seconds so far in which bytes were being sent, as TCP counts them; 0 for
  /// other sockets.
  double seconds_on_the_way() const noexcept;

  /// Has the other end closed? What it sent before can still be received.
  bool is_cut() const noexcept;

  /// Ends both directions and wakes all who wait.
  void shutdown() noexcept;

  int get() const { return fd_.get(); }

  bool is_encrypted() const { return tls_ != nullptr; }

private:
  size_t send_tls(std::span<iovec>& parts, bool wait);
  bool receive_tls(std::span<iovec> parts);
  void await(tls_wait wanted) const;

  descriptor fd_;
  std::shared_ptr<tls_session> tls_; ///< Ends before the descriptor.
  double patience_ = 0;              ///< s; of TLS.
};

} // namespace troupe::transport
