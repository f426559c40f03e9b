#pragma once
// Which path the tensors of a node take to its parameter server. No actors; may
// wait for the network.

#include "config/text/settings.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/transport/nccl/library.hpp"
#include "messages/transport/shm/shared_memory.hpp"
#include "messages/transport/wire/path.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace troupe {

class path_choice {
public:
  /// @param wanted As `--transport` says.
  /// @param memory Where gradients lie, for shm; null for none of it.
  /// @param say Told, once, why there is no shared memory.
  /// @param nccl For the path of that name; null for none of it.
  path_choice(std::string wanted,
              std::shared_ptr<transport::shared_memory> memory,
              std::function<void(const std::string&)> say,
              transport::nccl::library_ptr nccl = nullptr);

  /// s for which a path that broke is not taken again.
  static constexpr double rest = 60;

  /// Connects on the best path that the server offers and that does not rest;
  /// null for chunks over the actor connection. Throws `run_error` when the one
  /// that is wanted is not offered, `path_error` when it is, but not there.
  transport::path_ptr connect(const proto::PathOffer& offer,
                              const std::string& host,
                              const transport::path_terms& terms,
                              double now = 0);

  /// A path broke that others might replace: it rests. False when it is the
  /// only one wanted.
  bool skip(const std::string& name, double now = 0);

  /// The server in another life than before, or another one: what broke may
  /// have been the server itself, so nothing rests any more.
  void meet(const std::string& life);

private:
  bool takes(const std::string& name, double now) const;
  transport::path_ptr open(const std::string& name,
                           const proto::PathOffer& offer,
                           const std::string& host,
                           const transport::path_terms& terms) const;
  transport::path_ptr open_shm(const proto::PathOffer& offer,
                               const transport::path_terms& terms) const;
  transport::socket connect_stream(const proto::PathOffer& offer,
                                   const std::string& host) const;
  void look_for_memory(uint64_t bytes, double now);

  std::string wanted_;
  std::shared_ptr<transport::shared_memory> memory_;
  std::function<void(const std::string&)> say_;
  transport::nccl::library_ptr nccl_;
  bool no_memory_ = false;                ///< There is none for shm.
  std::string life_;                      ///< Of the server.
  std::map<std::string, double> resting_; ///< Paths, and until when.
};

/// The device of a worker's process, or of a server's: the one that was chosen
/// for it; else, with both in one process, different ones where there are two.
int nccl_device(const transport::nccl::library& lib, bool of_worker);

/// Whether NCCL may add up the gradients of a step and nothing is lost by that:
/// in synchronous runs, and where running statistics, which lie behind the
/// gradients, are averaged as these are.
bool adds_up(const config::settings& settings, bool has_statistics);

/// Whether the server offers the path.
bool offers(const proto::PathOffer& offer, const std::string& name);

} // namespace troupe
