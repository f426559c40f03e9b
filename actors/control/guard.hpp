#pragma once
// Reads the frames of CAF's protocol (BASP) that another node sends, before CAF
// does, and passes on whole messages that may be for this process. See
// docs/design/0037-trust.md.
//
// A value with buffers, used by one thread.

#include "actors/control/grants.hpp"
#include "actors/control/handle_reader.hpp"
#include "actors/control/rate_limit.hpp"

#include <caf/actor_system.hpp>
#include <caf/byte_buffer.hpp>
#include <caf/io/basp/header.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>

namespace troupe::control {

/// What a node has sent is against the rules: a line for the user.
class breach : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

class guard {
public:
  /// Bytes of a message, and of the handshake before it.
  static constexpr size_t most = 4u << 20;
  static constexpr size_t most_of_handshake = 4u << 10;

  /// Bytes of a message to a published actor: a hello.
  static constexpr size_t most_of_hello = 256u << 10;

  /// Bytes of a message that has actors or errors in it: an error may hold
  /// another one, and CAF's stack ends.
  static constexpr size_t most_of_handles = 8u << 10;

  /// How often, in the long run and at once. An honest node waits for an
  /// answer after a few messages, so it does not come near; the actors here can
  /// handle about as many.
  static constexpr double messages_per_second = 60'000;
  static constexpr double messages_at_once = 120'000;
  static constexpr double hellos_per_second = 10;
  static constexpr double hellos_at_once = 100;

  /// Values in a message. None of ours has as many.
  static constexpr size_t most_values = 16;

  /// @param who What the node has shown, if a certificate was asked for.
  guard(caf::actor_system& system, grants_ptr given,
        std::optional<shown_certificate> who = std::nullopt);

  ~guard();

  guard(const guard&) = delete;
  guard& operator=(const guard&) = delete;

  /// Where the next bytes belong, and no more of them than that. Never empty.
  std::span<caf::byte> room();

  /// So many bytes were put there. Throws `breach`; what was passed before is
  /// still ready.
  void came(size_t count);

  /// Bytes are sent. The node may address whoever sends it a message.
  void goes(std::span<const caf::byte> bytes);

  /// How many bytes are ready for CAF.
  size_t ready() const { return ready_to_ - taken_; }

  /// Moves ready bytes out. Returns how many.
  size_t take(std::span<caf::byte> to);

  /// The node, once it has shaken hands.
  const caf::node_id& node() const { return node_; }

  /// How many actors were given to it.
  size_t granted() const { return given_->count(node_); }

private:
  using header = caf::io::basp::header;
  using bytes_view = std::span<const caf::byte>;
  using reading = bool (handle_reader::*)(bytes_view);

  bool is_for_us(const header& head, bytes_view payload);
  void shake_hands(bytes_view payload);
  bool may_deliver(const header& head, bytes_view payload);
  void check_hello(const header& head);
  void pass();
  void check_receiver(const header& head) const;
  void check_nodes(bytes_view payload) const;
  void check_types(bytes_view payload);
  void check_handles(bytes_view payload, reading read);

  caf::actor_system& system_;
  grants_ptr given_;
  std::optional<shown_certificate> who_;
  caf::node_id node_;
  std::set<caf::actor_id> curious_; ///< Of CAF's own: they ask by name.
  bool is_first_ = false;           ///< No other connection was this node's.
  header head_{};
  caf::byte_buffer coming_;    ///< The message that is not complete, and room.
  size_t come_ = 0;            ///< Bytes of it.
  caf::byte_buffer passed_;    ///< Checked, and room.
  size_t taken_ = 0;           ///< Of `passed_`, from its beginning.
  size_t ready_to_ = 0;        ///< Where its checked bytes end.
  caf::byte_buffer going_;     ///< Of the header that is sent.
  uint64_t going_payload_ = 0; ///< Bytes that follow it.
  rate_limit messages_{messages_per_second, messages_at_once};
  rate_limit hellos_{hellos_per_second, hellos_at_once};
  rate_limit handles_{hellos_per_second, hellos_at_once};
};

} // namespace troupe::control
