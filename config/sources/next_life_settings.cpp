#include "config/sources/next_life_settings.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <sstream>

namespace troupe::config {

namespace {

constexpr const char* unknown = "-";

/// Facts, as the bits of one number.
constexpr unsigned has_evaluator = 1;
constexpr unsigned has_led_before = 2;
constexpr unsigned is_without_nccl = 4;

given give(const char* id, const std::string& text) {
  return {&key_of(id), text, {origin::source::environment, next_life_variable}};
}

next_life parse_next_life(const std::string& text) {
  std::istringstream in{text};
  next_life out;
  auto& before = out.before;
  uint64_t batch = 0;
  size_t known = 0;
  unsigned facts = 0;
  in >> out.rank >> out.peers >> facts >> batch >> before.number >>
    before.run_id;
  std::string word;
  if (in >> word && word != unknown)
    out.listens = parse_address(word);
  in >> known;
  while (before.nodes.size() < known && in >> word)
    before.nodes.push_back(parse_address(word));
  if (!in || out.rank >= out.peers || known == 0 || known > out.peers ||
      facts > (has_evaluator | has_led_before | is_without_nccl))
    throw bad_value("is not what print writes");
  out.evaluator = (facts & has_evaluator) != 0;
  out.has_led = (facts & has_led_before) != 0;
  out.without_nccl = (facts & is_without_nccl) != 0;
  if (batch > 0)
    out.global_batch_size = batch;
  if (before.run_id == unknown)
    before.run_id.clear();
  std::string rest;
  std::getline(in >> std::ws, rest);
  before.directory = rest;
  return out;
}

} // namespace

std::string print(const next_life& life) {
  std::ostringstream out;
  out << life.rank << ' ' << life.peers << ' '
      << ((life.evaluator ? has_evaluator : 0) |
          (life.has_led ? has_led_before : 0) |
          (life.without_nccl ? is_without_nccl : 0))
      << ' ' << life.global_batch_size.value_or(0) << ' ' << life.before.number
      << ' ' << (life.before.run_id.empty() ? unknown : life.before.run_id)
      << ' ' << (life.listens.host.empty() ? unknown : to_string(life.listens))
      << ' ' << life.before.nodes.size();
  for (const auto& node : life.before.nodes)
    out << ' ' << to_string(node);
  out << ' ' << life.before.directory.string();
  return out.str();
}

std::optional<next_life> read_next_life(const environment& variables) {
  auto found = variables.find(next_life_variable);
  if (found == variables.end() || found->second.empty())
    return std::nullopt;
  try {
    return parse_next_life(found->second);
  } catch (const bad_value&) {
    throw usage_error(std::string{next_life_variable} + "=" +
                      shown(found->second) +
                      ": is set by trainer_node itself; unset it");
  }
}

std::vector<given> restart_settings(const environment& variables) {
  auto found = variables.find(restart_variable);
  if (found == variables.end() || found->second.empty())
    return {};
  auto by_launch = [](const char* id, const std::string& text) {
    return given{
      &key_of(id), text, {origin::source::environment, restart_variable}};
  };
  return {by_launch("training.resume", "auto"),
          by_launch("training.overwrite", "false"),
          by_launch("training.train-dir", found->second)};
}

launch launch_of(const next_life& life) {
  launch out;
  out.rank = life.rank;
  out.processes = life.peers + (life.evaluator ? 1 : 0);
  out.rank_variable = next_life_variable;
  out.processes_variable = next_life_variable;
  return out;
}

std::vector<given> settings_of(const next_life& life) {
  std::vector<given> out{give("training.resume", "auto"),
                         give("training.overwrite", "false"),
                         give("cluster.join", "false")};
  for (auto id : {"cluster.workers", "cluster.shards"})
    out.push_back(give(id, std::to_string(life.peers)));
  const auto& lead = life.before.nodes.front();
  out.push_back(give("cluster.host", lead.host));
  out.push_back(give("cluster.port", std::to_string(lead.port)));
  // Each node listens where it did, and others find it where they did.
  if (!life.listens.host.empty() && life.rank < life.before.nodes.size()) {
    out.push_back(give("cluster.listen", to_string(life.listens)));
    out.push_back(
      give("cluster.advertise", to_string(life.before.nodes[life.rank])));
    out.push_back(give("cluster.interface", ""));
  }
  if (life.rank == 0 && !life.before.directory.empty())
    out.push_back(give("training.train-dir", life.before.directory.string()));
  return out;
}

std::vector<given> changes_of(const next_life& life) {
  if (!life.global_batch_size)
    return {};
  return {give("training.global-batch-size",
               std::to_string(*life.global_batch_size))};
}

} // namespace troupe::config
