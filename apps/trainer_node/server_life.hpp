#pragma once
// One life of the parameter server: its actors, which die together. Used while
// a node starts, on the thread that starts it.

#include "actors/runtime/supervisor.hpp"
#include "actors/server/parameter_server.hpp"
#include "apps/trainer_node/node.hpp"
#include "apps/trainer_node/one_process_cluster.hpp"
#include "apps/trainer_node/origin.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::app {

struct server_life {
  local_server with;
  std::vector<caf::strong_actor_ptr> actors; ///< The supervisor first.
  std::filesystem::path directory;           ///< The run directory.
  recording::peer_names_ptr peers;           ///< Of the recorder's lines.
};

/// Makes an actor that stands before the recorder, and ends with it.
using recorder_front = std::function<recorder_actor(const recorder_actor&)>;

struct life_options {
  end_callback on_end;
  bool silent = false;                 ///< Writes nothing to stdout.
  recorder_front before_recorder = {}; ///< May be empty.
};

/// Parameter server with all its shards in this process, recorder and
/// checkpoint writer under one supervisor, which is told when any of them dies.
class server_actors {
public:
  server_actors(caf::actor_system& system, const life_options& options,
                parameter_server_parts parts, const origin& from);

  /// Adds an actor that dies with the others.
  template <class Handle>
  void guard(const std::string& name, const Handle& who) {
    actors.push_back(caf::actor_cast<caf::strong_actor_ptr>(who));
    anon_send(supervisor, supervise_atom_v, name, actors.back());
  }

  supervisor_actor supervisor;
  lead_actor lead;
  recording::peer_names_ptr peers;
  std::vector<caf::strong_actor_ptr> actors; ///< The supervisor first.
};

/// Where the node says what it does; nowhere if it is to be silent.
speech voice(bool silent);

/// Has the server write its events to a file, if the settings say so.
void keep_event_log(parameter_server_parts& parts, const origin& from,
                    int threads, const speech& say);

/// Starts the parameter server with all actors that die with it, and the
/// coordinator.
server_life open_server(caf::actor_system& system, const life_options& options,
                        parameter_server_parts parts, const origin& from);

} // namespace troupe::app
