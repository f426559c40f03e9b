#include "actors/control/handle_reader.hpp"

#include "messages/interfaces.hpp"

#include <caf/all.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/scoped_execution_unit.hpp>

#include <utility>

namespace troupe::control {

namespace {

template <class... Handles>
caf::strong_actor_ptr find_handle(const caf::message& in, size_t at) {
  caf::strong_actor_ptr out;
  auto look = [&]<class Handle>(const Handle*) {
    if (in.match_element<Handle>(at))
      out = caf::actor_cast<caf::strong_actor_ptr>(in.get_as<Handle>(at));
  };
  (look(static_cast<const Handles*>(nullptr)), ...);
  return out;
}

caf::strong_actor_ptr handle_at(const caf::message& in, size_t at) {
  return find_handle<caf::strong_actor_ptr, parameter_server_actor,
                     worker_actor, evaluator_actor, coordinator_actor,
                     gateway_actor, chunk_end_actor, remote_shard_actor,
                     shard_registrar_actor>(in, at);
}

} // namespace

handle_reader::handle_reader(caf::actor_system& system, caf::node_id from)
  : system_(system), from_(std::move(from)) {
  // nop
}

// An error may have any message in it.
bool handle_reader::concerns(caf::type_id_t id) {
  using handles = caf::id_block::troupe_handles;
  return id == caf::type_id_v<caf::strong_actor_ptr> ||
         id == caf::type_id_v<caf::error> ||
         (id >= handles::begin && id < handles::end);
}

template <class Read>
bool handle_reader::read(bytes_view payload, Read values) {
  caf::scoped_execution_unit unit{&system_};
  caf::proxy_registry known{system_, *this};
  unit.proxy_registry_ptr(&known);
  caf::binary_deserializer source{
    &unit, caf::make_span(payload.data(), payload.size())};
  return values(source);
}

bool handle_reader::read_message(bytes_view payload) {
  return read(payload, [&](caf::binary_deserializer& source) {
    size_t stages = 0;
    caf::message all;
    if (!source.begin_sequence(stages) || stages > 0 || !source.apply(all))
      return false;
    for (size_t i = 0; i < all.size(); ++i)
      if (auto whom = handle_at(all, i))
        ours_.push_back(whom->id());
    return true;
  });
}

bool handle_reader::read_down(bytes_view payload) {
  return read(payload, [&](caf::binary_deserializer& source) {
    caf::node_id from, to;
    caf::error why;
    return source.apply(from) && source.apply(to) && source.apply(why);
  });
}

caf::strong_actor_ptr handle_reader::make_proxy(caf::node_id node,
                                                caf::actor_id) {
  ++(node == from_ ? theirs_ : others_);
  return nullptr;
}

} // namespace troupe::control
