#pragma once
// The ways that tensors can take between two nodes, as settings, checks and
// help know them. Each kind of path tells of itself before main begins
// (messages/transport/registry.cpp); programs that read settings link it.
//
// Values; `add_path` is not thread-safe, the rest is.

#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// How far apart the two ends may be.
enum class reach { process, host, network };

/// What others need to know of a kind of path.
struct path_facts {
  std::string name; ///< As `--transport` has it.
  reach across = reach::network;
  /// `--transport auto` may choose it; else it has to be asked for.
  bool automatic = true;
  bool needs_gpu = false; ///< Tensors are in the memory of two GPUs.
  bool overlaps = false;  ///< Gradients can leave while backward makes them.
  /// The path that is taken where this one fails; empty: none.
  std::string instead{};
};

/// The name for tensors in messages of the actor connection: always there.
inline constexpr std::string_view actor_connection = "chunked";

/// Adds a kind of path; to be called before main begins.
void add_path(path_facts facts);

/// All kinds, in the order in which they were added.
const std::vector<path_facts>& known_paths();

/// "auto" and the names of all paths.
const std::vector<std::string>& transport_names();

/// Null for `auto` and for what is no path.
const path_facts* find_path(std::string_view name);

/// May a node with this `--transport` take paths that reach so far, besides the
/// actor connection?
bool takes_paths(std::string_view transport, reach across);

} // namespace troupe::config
