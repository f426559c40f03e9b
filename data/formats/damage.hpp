#pragma once
// Lets a reader go on after a damaged file, so that a caller can list all of
// them. Stateless; any thread.

#include "config/text/failure.hpp"

#include <string>
#include <utility>
#include <vector>

namespace troupe::data {

/// The errors of a data set's files, a line each, in the order of the files.
using damage_list = std::vector<std::string>;

/// Does the work for one file. Without a list its `run_error` is passed on;
/// with one it is noted there, and the file is left out.
template <class Work>
void note_damage(damage_list* to, Work&& work) {
  if (!to)
    return std::forward<Work>(work)();
  try {
    std::forward<Work>(work)();
  } catch (const run_error& why) {
    to->push_back(why.what());
  }
}

} // namespace troupe::data
