#include "config/runs/description.hpp"

#include "config/rules/small_networks.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "config/values/script.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace troupe::config {

namespace {

const std::string* value_of(const pairs& all, std::string_view id) {
  auto found = std::ranges::find(
    all, id, [](const auto& one) -> std::string_view { return one.first; });
  return found == all.end() ? nullptr : &found->second;
}

bool has(const pairs& all, std::string_view id) {
  const auto* value = value_of(all, id);
  return value && !value->empty();
}

/// Only the parameter server acts on these, and only for later steps.
bool is_limit(std::string_view id) {
  return id == "training.epochs" || id == "training.max-steps" ||
         id == "training.target-accuracy" || id == "training.target" ||
         id == "evaluation.eval-freq";
}

/// Any number of workers may share the data, unless each has its own part of
/// it. The batch of one worker follows from their number if the global batch is
/// given.
bool is_free(std::string_view id, const pairs& run, relation how) {
  if (is_limit(id))
    return true;
  if (id == "cluster.run-id") // Only where both ends know a name.
    return how == relation::resume || !has(run, id);
  if (id == "cluster.shards")
    return how == relation::resume;
  if (id == "training.batch-size")
    return how == relation::resume && has(run, "training.global-batch-size");
  if (id != "cluster.workers")
    return false;
  const auto* sharding = value_of(run, "data.sharding");
  return how == relation::join || !sharding || *sharding == "leased";
}

/// A network in a file is identified by its content, not by its path. A node
/// that leaves a choice to the run agrees with what the run has.
bool is_same(std::string_view id, const std::string& run,
             const std::string& here) {
  auto both = [&](auto is_kind) {
    return is_kind(run) && is_kind(here);
  };
  if (id == "training.network" && (both(is_script) || both(is_described)))
    return true;
  if (id == "training.autocast" && here == print(autocast_kind::automatic))
    return true;
  return run == here;
}

/// Whether a node that joins gives the network the name that the lead was
/// given: the run has the variant of it that suits the images.
bool means_the_same(std::string_view id, const pairs& run,
                    const std::string& here) {
  const auto* dataset = value_of(run, "data.dataset");
  const auto* network = value_of(run, id);
  return id == "training.network" && dataset && network &&
         small_form_of(here, *dataset) == *network;
}

std::string hex(uint64_t x) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(x));
  return text;
}

void compare_settings(const pairs& run, const pairs& here, relation how,
                      std::vector<difference>& out) {
  for (const auto& [id, value] : here) {
    const auto* theirs = value_of(run, id);
    if (!theirs || is_same(id, *theirs, value) || is_free(id, run, how) ||
        (how == relation::join && means_the_same(id, run, value)))
      continue;
    auto dot = id.find('.');
    out.push_back({id, "[" + id.substr(0, dot) + "] " + id.substr(dot + 1),
                   *theirs, value});
  }
}

/// Adds a difference if both values are known and differ.
class finder {
public:
  explicit finder(std::vector<difference>& out) : out_(out) {
    // nop
  }

  void names(const std::string& subject, const std::string& run,
             const std::string& here) {
    if (!run.empty() && !here.empty() && run != here)
      out_.push_back({"", subject, run, here});
  }

  void numbers(const std::string& subject, uint64_t run, uint64_t here) {
    if (run != 0 && here != 0 && run != here)
      out_.push_back({"", subject, std::to_string(run), std::to_string(here)});
  }

  void digests(const std::string& subject, uint64_t run, uint64_t here) {
    if (run != 0 && here != 0 && run != here)
      out_.push_back({"", subject, hex(run), hex(here)});
  }

private:
  std::vector<difference>& out_;
};

void compare_parts(const std::string& name, const std::optional<data_part>& run,
                   const std::optional<data_part>& here, finder& to) {
  if (!run || !here)
    return;
  to.numbers(name + " samples", run->samples, here->samples);
  to.digests("digest of the labels of the " + name + " samples", run->labels,
             here->labels);
  to.digests("digest of the " + name + " data", run->content, here->content);
}

void compare_data(const data_description& run, const data_description& here,
                  finder& to) {
  to.names("data set", run.name, here.name);
  to.numbers("classes", run.classes, here.classes);
  for (size_t i = 0; i < run.shape.size(); ++i)
    to.numbers(std::string{i == 0   ? "channels"
                           : i == 1 ? "height"
                                    : "width"} +
                 " of a sample",
               run.shape[i], here.shape[i]);
  compare_parts("training", run.train, here.train, to);
  compare_parts("test", run.test, here.test, to);
}

} // namespace

std::vector<difference> differences(const run_description& run,
                                    const run_description& here, relation how) {
  std::vector<difference> out;
  compare_settings(run.settings, here.settings, how, out);
  finder to{out};
  compare_data(run.data, here.data, to);
  to.names("SHA-256 of the network's file", run.network_sha256,
           here.network_sha256);
  to.names("SHA-256 of the file of the first weights", run.init.sha256,
           here.init.sha256);
  return out;
}

std::string or_not_set(const std::string& value) {
  return value.empty() ? "(not set)" : shown(value);
}

std::string to_string(const difference& found) {
  return found.what + ": " + or_not_set(found.run) + " there, " +
         or_not_set(found.here) + " here";
}

bool may_change(std::string_view id) {
  constexpr std::string_view fixed[] = {
    "training.network", "training.dtype", "training.optimizer", "training.seed",
    "training.freeze", "data.dataset", "data.sharding", "data.drop-last",
    "data.image-size",
    // Asked for only where each worker has a part of the data.
    "cluster.workers"};
  return std::ranges::find(fixed, id) == std::end(fixed);
}

} // namespace troupe::config
