#pragma once
// Who looks over the shoulders of the parameter server and the links: told of
// each thing in the moment that it happens, in the order of happening. Only
// runs under the virtual clock have one; all of its calls are on their one
// thread.

#include "messages/proto/manifest.pb.h"
#include "messages/types.hpp"

#include <span>

namespace troupe {

class witness {
public:
  virtual ~witness() = default;

  // -- the parameter server ---------------------------------------------------

  /// A life of the server begins, at a checkpoint or (null) anew.
  virtual void began(incarnation server, const proto::Manifest* from) = 0;

  /// A worker is known, then in the cast, then no more.
  virtual void enlisted(worker_id who, incarnation life) = 0;
  virtual void entered(std::span<const worker_id> who) = 0;
  virtual void left(worker_id who, incarnation life) = 0;

  /// A push was taken and goes to the policy; or its gradient is unusable.
  virtual void accepted(const push_header& what) = 0;
  virtual void refused(const push_header& what) = 0;

  /// A member asks for weights and gives this lease up (0: none).
  virtual void pulled(worker_id who, lease_id abandoned) = 0;

  /// These gradients are in the weights; this one will never be.
  virtual void applied(version makes, std::span<const push_header> parts) = 0;
  virtual void dropped(const push_header& what) = 0;

  /// A worker is answered with the newest weights.
  virtual void released(worker_id who, const release_header& what) = 0;

  /// The run is over: nobody is answered any more.
  virtual void ended() = 0;

  /// A checkpoint is durable.
  virtual void saved(version what) = 0;

  // -- links ------------------------------------------------------------------

  /// A worker has sent a gradient; it has read that the server took it; a
  /// gradient came to nothing for this reason.
  virtual void pushed(const push_header& what) = 0;
  virtual void acknowledged(const push_header& what,
                            const release_header& answer) = 0;
  virtual void turned_away(const push_header& what, const caf::error& why) = 0;
};

} // namespace troupe
