#pragma once
// Which process is which worker: host and process id, as the process said in
// its hello. For lines to users, who would else have to guess.
//
// One object in the process of the parameter server, shared by the admission,
// which hears the names, the parameter server, which gives the places, and the
// recorder. Thread-safe.

#include "messages/ids.hpp"

#include <caf/node_id.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace troupe::recording {

struct process_name {
  std::string host;
  int pid = 0;
};

class peer_names {
public:
  /// A process has said its name, "host/pid".
  void said(const caf::node_id& process, const std::string& name);

  /// A worker of that process has this place.
  void seated(worker_id who, const caf::node_id& process);

  /// "host, pid 4711"; empty for a worker of this process and an unknown one.
  std::string of(worker_id who) const;

  /// The same, as values.
  std::optional<process_name> process_of(worker_id who) const;

private:
  mutable std::mutex mutex_;
  std::map<caf::node_id, std::string> said_; ///< Of those without a place.
  std::map<worker_id, std::string> seated_;
};

using peer_names_ptr = std::shared_ptr<peer_names>;

} // namespace troupe::recording
