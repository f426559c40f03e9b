#pragma once
// Reads which actors a message of another node names, without CAF's remembering
// them: CAF keeps each for as long as the node is connected, and those of third
// nodes for ever. A value, used by one thread for one message.

#include <caf/actor_system.hpp>
#include <caf/byte.hpp>
#include <caf/message.hpp>
#include <caf/node_id.hpp>
#include <caf/proxy_registry.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace troupe::control {

class handle_reader final : private caf::proxy_registry::backend {
public:
  using bytes_view = std::span<const caf::byte>;

  handle_reader(caf::actor_system& system, caf::node_id from);

  /// Whether values of this type are actors, or may hold some.
  static bool concerns(caf::type_id_t id);

  /// A message's payload. False if it cannot be read.
  bool read_message(bytes_view payload);

  /// That of the news that an actor has ended. False if it cannot be read.
  bool read_down(bytes_view payload);

  /// Of the node that it comes from.
  size_t theirs() const { return theirs_; }

  /// Of neither that node nor this process.
  bool has_others() const { return others_ > 0; }

  /// Of this process.
  const std::vector<caf::actor_id>& ours() const { return ours_; }

private:
  caf::strong_actor_ptr make_proxy(caf::node_id node,
                                   caf::actor_id whom) override;

  void set_last_hop(caf::node_id*) override {}

  template <class Read>
  bool read(bytes_view payload, Read values);

  caf::actor_system& system_;
  caf::node_id from_;
  size_t theirs_ = 0;
  size_t others_ = 0;
  std::vector<caf::actor_id> ours_;
};

} // namespace troupe::control
