#include "config/sources/next_life.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <sstream>

namespace troupe::config {

namespace {

given give(const char* id, const std::string& text) {
  return {&key_of(id), text, {origin::source::environment, next_life_variable}};
}

} // namespace

std::string print(const next_life& what) {
  std::ostringstream out;
  out << what.rank << ' ' << what.peers << ' ' << what.evaluator << ' '
      << what.global_batch_size.value_or(0) << ' ' << what.directory.string();
  return out.str();
}

std::optional<next_life> read_next_life(const environment& variables) {
  auto found = variables.find(next_life_variable);
  if (found == variables.end() || found->second.empty())
    return std::nullopt;
  std::istringstream in{found->second};
  next_life out;
  uint64_t batch = 0;
  if (!(in >> out.rank >> out.peers >> out.evaluator >> batch) ||
      out.rank >= out.peers + (out.evaluator ? 1 : 0))
    throw usage_error(std::string{next_life_variable} + "=" +
                      shown(found->second) +
                      ": is set by trainer_node itself; unset it");
  if (batch > 0)
    out.global_batch_size = batch;
  std::string directory;
  std::getline(in >> std::ws, directory);
  out.directory = directory;
  return out;
}

launch launch_of(const next_life& what) {
  launch out;
  out.rank = what.rank;
  out.processes = what.peers + (what.evaluator ? 1 : 0);
  out.rank_variable = next_life_variable;
  out.processes_variable = next_life_variable;
  return out;
}

std::vector<given> settings_of(const next_life& what) {
  std::vector<given> out{give("training.resume", "auto"),
                         give("training.overwrite", "false")};
  if (what.rank < what.peers)
    for (auto id : {"cluster.workers", "cluster.shards"})
      out.push_back(give(id, std::to_string(what.peers)));
  if (!what.directory.empty())
    out.push_back(give("training.train-dir", what.directory.string()));
  return out;
}

std::vector<given> changes_of(const next_life& what) {
  if (!what.global_batch_size)
    return {};
  return {give("training.global-batch-size",
               std::to_string(*what.global_batch_size))};
}

} // namespace troupe::config
