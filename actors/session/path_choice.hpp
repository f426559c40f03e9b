#pragma once
// Chooses the path on which the tensors of a node travel to its parameter
// server, and opens it.
//
// A member of a session client's state. No actors; `connect` may block on the
// network. Not thread-safe.

#include "config/text/settings.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/transport/registry.hpp"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace troupe {

class path_choice {
public:
  /// @param wanted The value of `--transport`.
  /// @param means What the node has for paths; those that it has nothing for
  /// are not used.
  /// @param say Called once for a path that cannot be used, with the reason.
  path_choice(std::string wanted, transport::path_means means,
              std::function<void(const std::string&)> say);

  /// Seconds for which a path that broke is not tried again.
  static constexpr double rest = 60;

  /// Connects on the best path that the server offers and that has not just
  /// broken; null: use chunks over the actor connection. Throws `run_error`
  /// when the path that the user wants is not offered, `path_error` when it is
  /// offered but cannot be opened.
  transport::path_ptr connect(const proto::PathOffer& offer,
                              const config::address& at,
                              const transport::path_terms& terms,
                              double now = 0);

  /// A path broke that another may replace: it is not tried for a while. False
  /// when it is the only one wanted.
  bool skip(const std::string& name, double now = 0);

  /// The node meets a server, or another life of it. If that is a new one, all
  /// paths may be tried again: the server itself may have been what broke.
  void meet(const std::string& life);

private:
  std::vector<const transport::path_row*> candidates() const;
  bool rests(const std::string& name, double now) const;
  bool fits(const transport::path_row& row, const proto::PathOffer& offer,
            uint64_t bytes);
  transport::path_ptr open(const transport::path_row& row,
                           const proto::PathOffer& offer,
                           const config::address& at,
                           const transport::path_terms& terms) const;

  std::string wanted_;
  transport::path_means means_;
  std::function<void(const std::string&)> say_;
  std::set<std::string> unfit_;           ///< Paths that cannot be used here.
  std::string life_;                      ///< The server's life.
  std::map<std::string, double> resting_; ///< Until when not to try paths.
};
} // namespace troupe
