#pragma once
// A kind of path as other code sees it: what settings know of it, whether two
// nodes can have it, and how its two ends are made. Each kind defines its row
// beside its carrier; registry.cpp puts the rows into one table.

#include "config/schema/paths.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/transport/wire/meeting.hpp"
#include "messages/transport/wire/path.hpp"

#include <memory>
#include <optional>
#include <string>

namespace troupe::transport {

class gpu_network;
class shared_memory;

/// What a process offers its paths; null: it does not have this.
struct path_means {
  std::shared_ptr<shared_memory> memory{};
  std::shared_ptr<gpu_network> gpus{}; ///< Of the GPU that has its tensors.
  credentials own{};                   ///< Of who connects.
};

struct path_row {
  config::path_facts facts;

  /// Does the server offer it? Null: never.
  bool (*offered)(const proto::PathOffer&) = nullptr;

  /// Has this process what it needs? Null: always.
  bool (*possible)(const path_means&) = nullptr;

  /// Why tensors of so many bytes cannot go this way to who offers it; nothing:
  /// they can. Asked only where `possible`. Null: they always can.
  std::optional<std::string> (*trouble)(const path_means&,
                                        const proto::PathOffer&,
                                        uint64_t bytes) = nullptr;
  std::string remedy{}; ///< Of that trouble: "give this process more memory".

  /// The ends of a worker or an evaluator, and of the server, over a connection
  /// between them. Null where tensors have no connection of their own.
  path_ptr (*near_end)(socket line, const path_terms&,
                       const path_means&) = nullptr;
  path_ptr (*far_end)(socket line, const path_terms&,
                      const path_means&) = nullptr;
};

} // namespace troupe::transport
