#pragma once
// How the two ends of a path meet: one listens, the other connects and shows
// the token that it was given over the actor connection.

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

/// Random bytes, as nobody can guess them.
std::string random_token();

/// The same as text.
std::string random_name();

/// Connects to an address within `patience` s. Throws `path_error`.
socket connect_stream(const std::string& host, uint16_t port, double patience);

/// Connects to an abstract Unix socket of a process of the same user.
socket connect_unix(const std::string& name);

/// Shows the token, and waits up to `patience` s until it is accepted. Throws
/// `path_error`.
void introduce(socket& line, const std::string& token, double patience);

/// Somebody who has connected and shown a token; whether it is good is not
/// known yet.
struct guest {
  std::string token;
  bool same_host = false; ///< Came over the Unix socket.
  socket line;

  /// Lets him in. Throws `path_error`.
  void welcome();
};

/// Where to listen.
struct reception_terms {
  std::string host;      ///< For streams; empty: no streams.
  bool same_host = true; ///< Over a Unix socket as well.
  double patience = 5;   ///< s for showing a token.
  size_t most_pending = 64;
  /// s without a look at who else comes, when there is nothing to take him
  /// with.
  double rest = 0.1;
};

/// Listens, and reads who it is. Strangers are put up with for a while and in a
/// limited number, the oldest being sent away for a new one: they cost neither
/// memory nor a thread. When this process has no descriptors left, they wait.
class reception {
public:
  /// Throws `path_error`.
  explicit reception(const reception_terms& terms);

  ~reception();

  uint16_t port() const { return port_; }           ///< 0: none.
  const std::string& name() const { return name_; } ///< Empty: none.

  /// Waits until somebody has shown a token; nobody when it was closed or
  /// nudged. For one thread.
  std::vector<guest> wait();

  /// Ends the waiting this time; any thread may.
  void nudge() noexcept;

  /// Ends all waiting; any thread may.
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
