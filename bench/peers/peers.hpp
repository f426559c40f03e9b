#pragma once
// PyTorch's own ways to train, as child processes. Whoever compares them calls
// this; one thread.

#include "bench/topics.hpp"
#include "bench/train/contenders.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::bench {

/// How a peer is run: as it comes, or so that it keeps its memory.
struct peer_variant {
  const char* suffix; ///< Of the figure's name.
  const char* shown;
  std::vector<std::string> before; ///< What the command begins with.
};

std::vector<peer_variant> peer_variants();

/// Samples a second of the workers of a peer; throws `run_error` if it fails.
/// @param mode For peers.py.
/// @param before What the command begins with: its environment.
/// @param ours The contenders beside it: it computes as many gradients of as
/// many samples.
double rate_of_peer(const std::string& mode,
                    const std::vector<std::string>& before, const setting& how,
                    const workload& job, const contenders& ours);

/// The heading of figures that need a Python. Returns whether there is one;
/// says so if not.
bool begin_with_python(const setting& how, report& out, const char* title);

/// As `launch` sets it.
inline constexpr const char* little_spinning = "GOMP_SPINCOUNT=10000";

/// The beginning of a command in which Python finds Troupe's package and
/// program, and has one thread.
std::vector<std::string> with_package(const setting& how);

/// The number that a Python program has written. Throws `run_error` if there is
/// none.
double number_in(const std::filesystem::path& file);

} // namespace troupe::bench
