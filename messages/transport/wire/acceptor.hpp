#pragma once
// Takes the connections of other nodes at the one port of this process. Who
// connects says first what for, and shows a secret: 36 bytes, the opening. Only
// then is the connection passed on. See docs/design/0037-trust.md.
//
// Connections that have not got so far are kept for a while and in limited
// number. They cost neither memory nor a thread of their own. While this
// process has no descriptors left, they wait.

#include "config/text/descriptor.hpp"
#include "messages/transport/wire/descriptor_limit.hpp"
#include "messages/transport/wire/meeting.hpp"
#include "messages/transport/wire/refusal_notes.hpp"
#include "messages/transport/wire/socket.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace troupe::transport {

struct tls_peer;

/// A node that has connected and opened. Whether its secret is right has not
/// been checked yet.
struct guest {
  connection_line line;
  purpose wants = purpose::control;
  std::string secret;     ///< As long as that of an opening.
  bool same_host = false; ///< Connected over the Unix socket.
  std::string from;       ///< The address that it has connected from.

  /// Tells the node that it is accepted. Throws `path_error`.
  void welcome();

  /// Who it is by its certificate; nothing without one.
  const tls_peer* certified() const;

  /// Sends it away with a line for its user.
  void refuse(bool for_good, const std::string& why) noexcept;
};

/// Whether a node may join. The limit after a time without is higher, so that
/// the next node does not use it up at once.
/// @param left Files that may still be opened, of `most`.
bool should_accept(bool open, size_t left, size_t most);

/// A connection that has been let in, as a socket that blocks.
socket line_of(guest who);

struct acceptor_terms {
  std::string host;
  uint16_t port = 0;     ///< 0: any free one.
  bool same_host = true; ///< Over a Unix socket as well.
  double patience = 5;   ///< s for opening.
  size_t most_pending = 256;
  /// s without accepting further nodes after descriptors or memory for them ran
  /// out.
  double rest = 0.1;
  /// What this process shows over the network; and what they who want a control
  /// connection must show, a certificate or the same proof.
  credentials own{};
  /// Told when the port shuts and opens, and of strangers; or null. Called by
  /// the acceptor's thread.
  std::function<void(const std::string&)> say{};
};

/// Listens, on a thread of its own. Thread-safe.
class acceptor {
public:
  /// Called by the acceptor's thread. Must not block, nor call the acceptor.
  using taker = std::function<void(guest)>;

  /// Throws `path_error`.
  explicit acceptor(acceptor_terms terms);

  ~acceptor();

  acceptor(const acceptor&) = delete;
  acceptor& operator=(const acceptor&) = delete;

  uint16_t port() const { return port_; }
  const std::string& name() const { return name_; } ///< Empty: no Unix socket.

  /// Closes the port and sends everybody away who has not been passed on. Not
  /// to be called by the acceptor's thread.
  void close();

  /// Says who takes the guests that want this from now on; null: they wait. The
  /// taker of before is not called any more when this returns.
  void lead_to(purpose wants, taker to);

private:
  using clock = std::chrono::steady_clock;
  struct pending;

  void open_unix();
  void wake();
  void run();
  int time_to_wait(clock::time_point now) const;
  void accept_from(const config::descriptor& listener, bool same_host);
  void make_room();
  bool attend(pending& one);
  bool let_in(pending& one);
  bool pass_on(pending& one);
  bool has_room();
  bool secure(pending& one);
  bool is_proven(const pending& one) const;
  void note_stranger(const pending& one, const std::string& why);

  acceptor_terms terms_;
  std::vector<config::descriptor> streams_; ///< At one port.
  config::descriptor unix_;
  config::descriptor wake_;
  uint16_t port_ = 0;
  std::string name_;

  // The thread's:

  std::vector<pending> pending_; ///< The oldest first.
  descriptor_limit files_;
  bool open_ = true;
  clock::time_point rests_until_{};
  refusal_notes strangers_;

  std::mutex mutex_;
  taker control_; ///< Guarded by `mutex_`, as the next.
  taker tensors_;
  std::atomic<bool> closing_ = false;
  std::thread thread_; ///< The last member: it uses the others.
};

} // namespace troupe::transport
