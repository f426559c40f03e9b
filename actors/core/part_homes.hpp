#pragma once
// Which rank a worker with files of its own belongs to. A rank stays with the
// data of the worker that had it first: one that comes back finds its rank
// again by its data, and one with other data is told so.
//
// A value. Not thread-safe; one owner.

#include "messages/lease.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>

namespace troupe::cores {

/// Why a worker gets no rank.
struct no_home {
  bool for_good = false; ///< Else a rank may become free.
  std::string line;      ///< For the user.
};

class part_homes {
public:
  /// Ranks below `parts`. `known`: whose data is known already.
  part_homes(uint32_t parts, std::map<worker_id, owned_data> known);

  /// The rank for a worker with this data, which is the rank's from now on.
  /// `wish` is the rank it asks for; `live` says which ranks are taken.
  std::variant<worker_id, no_home>
  settle(std::optional<worker_id> wish, const owned_data& data,
         const std::function<bool(worker_id)>& live);

private:
  std::variant<worker_id, no_home>
  look(const owned_data& data,
       const std::function<bool(worker_id)>& live) const;
  no_home refuse(worker_id rank, const owned_data& data) const;

  uint32_t parts_;
  std::map<worker_id, owned_data> homes_;
};

} // namespace troupe::cores
