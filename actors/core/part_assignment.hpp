#pragma once
// Which rank a worker with files of its own gets. A rank stays with the data of
// the first worker that had it: a worker that returns gets its rank back by its
// data, and a worker with other data is refused.
//
// A value, owned by the coordinator; not thread-safe.

#include "messages/lease.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>

namespace troupe::cores {

/// Why a worker gets no rank.
struct no_part {
  bool for_good = false; ///< If false, a rank may become free later.
  std::string line;      ///< For the user.
};

class part_assignment {
public:
  /// @param parts The number of ranks.
  /// @param known The data of ranks that are known already.
  part_assignment(uint32_t parts, std::map<worker_id, owned_data> known);

  /// The rank for a worker with this data, which keeps the rank from now on.
  /// `wish` is the rank that it asks for; `live` says which ranks are in use.
  std::variant<worker_id, no_part>
  assign_part(std::optional<worker_id> wish, const owned_data& data,
              const std::function<bool(worker_id)>& live);

private:
  std::variant<worker_id, no_part>
  look(const owned_data& data,
       const std::function<bool(worker_id)>& live) const;
  no_part refuse(worker_id rank, const owned_data& data) const;

  uint32_t parts_;
  std::map<worker_id, owned_data> owners_;
};

} // namespace troupe::cores
