#include "actors/recording/metrics_tail.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"

namespace troupe::fuzz {

bool metrics(bytes_view data) {
  memory_file file{data};
  auto found = false;
  return taken(
           [&] { found = recording::last_step(file.path()).has_value(); }) &&
         found;
}

} // namespace troupe::fuzz
