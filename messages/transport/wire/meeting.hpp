#pragma once
// How the two ends of a path connect: one listens, the other connects and shows
// the token that it was given over the actor connection. The path listener owns
// the reception and waits on a thread of its own; peers call the connect
// functions.

#include "messages/transport/wire/socket.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::transport {

/// Bytes of a token.
inline constexpr size_t token_size = 16;

/// Random bytes that nobody can guess.
std::string random_token();

/// A random name, as text.
std::string random_name();

/// Connects to an address within `patience` seconds. Throws `path_error`.
socket connect_stream(const std::string& host, uint16_t port, double patience);

/// Why a peer that has just failed to connect could not, as the system says:
/// the name does not resolve, there is no way to the host, or nobody answers.
/// Tries each address of the host for `patience` seconds.
std::string why_unreachable(const std::string& host, uint16_t port,
                            double patience);

/// Connects to an abstract Unix socket of a process of the same user.
socket connect_unix(const std::string& name);

/// Shows the token and waits up to `patience` seconds until it is accepted.
/// Throws `path_error`.
void introduce(socket& line, const std::string& token, double patience);

/// A peer that has connected and shown a token. Whether the token is valid has
/// not been checked yet.
struct guest {
  std::string token;
  bool same_host = false; ///< Connected over the Unix socket.
  socket line;

  /// Tells the peer that it is accepted. Throws `path_error`.
  void welcome();
};

/// Where to listen.
struct reception_terms {
  std::string host;      ///< For streams; empty: no streams.
  bool same_host = true; ///< Over a Unix socket as well.
  double patience = 5;   ///< s for showing a token.
  size_t most_pending = 64;
  /// s without accepting further peers after descriptors or memory for them ran
  /// out.
  double rest = 0.1;
};

/// Listens and reads the tokens of peers. Peers without a token yet are kept
/// for a while and in limited number; the oldest is dropped for a new one. They
/// cost neither memory nor a thread. While this process has no descriptors
/// left, they wait.
class reception {
public:
  /// Throws `path_error`.
  explicit reception(const reception_terms& terms);

  ~reception();

  uint16_t port() const { return port_; }           ///< 0: none.
  const std::string& name() const { return name_; } ///< Empty: none.

  /// Waits until peers have shown their tokens; empty when it was closed or
  /// nudged. To be called by one thread only.
  std::vector<guest> wait();

  /// Makes the current `wait` return; any thread may call it.
  void nudge() noexcept;

  /// Makes this and all later `wait` calls return; any thread may call it.
  void close() noexcept;

  bool is_closed() const noexcept { return closed_; }

private:
  using clock = std::chrono::steady_clock;
  struct pending;

  void open_stream(const std::string& host);
  void open_unix();
  int time_to_wait(clock::time_point now) const;
  void accept_from(const descriptor& listener, bool same_host);

  reception_terms terms_;
  descriptor stream_;
  descriptor unix_;
  descriptor wake_;
  uint16_t port_ = 0;
  std::string name_;
  std::vector<pending> pending_; ///< The oldest first.
  clock::time_point rests_until_{};
  std::atomic<bool> closed_ = false;
};

} // namespace troupe::transport
