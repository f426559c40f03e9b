#include "actors/recording/metrics_log.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace troupe::recording {

namespace {

namespace native_metrics = config::native_metrics;
using nlohmann::ordered_json;

/// The keys that every line begins with.
ordered_json line_of(std::string_view kind, uint64_t step, double time) {
  return {{"kind", kind}, {"step", step}, {"time", time}};
}

/// Numbers that are not finite become null; text that is not UTF-8 does not
/// throw.
std::string text_of(const ordered_json& line) {
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// Most lines are updates, and they are long in a large cluster: their text is
// built directly, without a tree of values. The bytes are the same as those of
// text_of.

void put_json(std::string& out, uint64_t x) {
  std::array<char, 20> text;
  auto end = std::to_chars(text.data(), text.data() + text.size(), x).ptr;
  out.append(text.data(), end);
}

void put_json(std::string& out, double x) {
  if (!std::isfinite(x)) {
    out += "null";
    return;
  }
  std::array<char, 64> text;
  auto end =
    nlohmann::detail::to_chars(text.data(), text.data() + text.size(), x);
  out.append(text.data(), end);
}

template <class List, class Number>
void put_list(std::string& out, const List& list, Number number) {
  out += '[';
  for (const auto& x : list) {
    put_json(out, number(x));
    out += ',';
  }
  if (out.back() == ',')
    out.back() = ']';
  else
    out += ']';
}

/// Names need no escapes.
void put_metrics(std::string& out, std::span<const config::metric> all) {
  char before = '{';
  for (const auto& one : all) {
    out += std::exchange(before, ',');
    out += '"' + one.name + "\":";
    put_json(out, one.value);
  }
  out += '}';
}

} // namespace

metrics_log::metrics_log(const std::filesystem::path& path, mode how,
                         size_t gathers)
  : file_(path, how, gathers) {
  // nop
}

void metrics_log::update(const update_record& record) {
  uint64_t samples = 0;
  for (const auto& x : record.gradients)
    samples += x.samples;
  line_ = R"({"kind":"update","step":)";
  put_json(line_, record.step);
  put_json(line_ += R"(,"time":)", record.time);
  put_json(line_ += R"(,"loss":)", record.loss);
  put_json(line_ += R"(,"epoch":)", record.epoch);
  put_json(line_ += R"(,"lr":)", record.lr);
  put_json(line_ += R"(,"samples":)", samples);
  put_json(line_ += R"(,"gradients":)", uint64_t{record.gradients.size()});
  put_list(line_ += R"(,"workers":)", record.gradients,
           [](const auto& x) { return uint64_t{x.worker.value}; });
  put_list(line_ += R"(,"staleness":)", record.gradients,
           [](const auto& x) { return x.staleness; });
  if (!record.metrics.empty())
    put_metrics(line_ += R"(,"metrics":)", record.metrics);
  file_.append(line_ += '}');
}

void metrics_log::evaluation(const evaluation_record& record) {
  auto line = line_of("evaluation", record.step, record.time);
  auto value = [&](const char* name) {
    auto found = config::value_of(record.metrics, name);
    return found ? ordered_json(*found) : ordered_json(nullptr);
  };
  line["loss"] = value(native_metrics::loss);
  line["accuracy"] = value(native_metrics::accuracy);
  line["samples"] = record.samples;
  line["accuracy_top5"] = value(native_metrics::accuracy_top5);
  line["metrics"] = ordered_json::object();
  for (const auto& one : record.metrics)
    line["metrics"][one.name] = one.value;
  if (record.best)
    line["best"] = {{"step", record.best->step},
                    {"metric", record.best->metric},
                    {"value", record.best->value}};
  file_.append(text_of(line));
}

void metrics_log::started(const start_record& record) {
  auto line = line_of("started", record.step, record.time);
  line["run_id"] = record.run_id;
  line["network"] = record.network;
  line["dataset"] = record.dataset;
  line["policy"] = record.policy;
  line["workers"] = record.workers;
  line["shards"] = record.shards;
  line["seed"] = record.seed;
  file_.append(text_of(line));
}

void metrics_log::resumed(uint64_t step, double time, life_number ps,
                          std::optional<uint64_t> lost,
                          std::span<const config::change> changes) {
  auto line = line_of("resumed", step, time);
  line["incarnation"] = ps.value;
  line["lost_updates"] = lost ? ordered_json(*lost) : ordered_json(nullptr);
  for (const auto& what : changes)
    line["changes"][what.key] = {{"before", what.before},
                                 {"after", what.after}};
  file_.append(text_of(line));
}

void metrics_log::joined(uint64_t step, double time, worker_id who,
                         life_number life) {
  auto line = line_of("joined", step, time);
  line["worker"] = who.value;
  line["incarnation"] = life.value;
  file_.append(text_of(line));
}

void metrics_log::left(uint64_t step, double time, worker_id who,
                       life_number life, std::string_view reason) {
  auto line = line_of("left", step, time);
  line["worker"] = who.value;
  line["incarnation"] = life.value;
  line["reason"] = reason;
  file_.append(text_of(line));
}

void metrics_log::members(uint64_t step, double time, uint32_t count,
                          bool paused, std::optional<double> momentum) {
  auto line = line_of("members", step, time);
  line["members"] = count;
  line["paused"] = paused;
  if (momentum)
    line["momentum"] = *momentum;
  file_.append(text_of(line));
}

void metrics_log::dropped(uint64_t step, double time, worker_id who,
                          uint64_t staleness, uint64_t samples) {
  auto line = line_of("dropped", step, time);
  line["worker"] = who.value;
  line["staleness"] = staleness;
  line["samples"] = samples;
  file_.append(text_of(line));
}

void metrics_log::cancelled(uint64_t step, double time, worker_id who) {
  auto line = line_of("cancelled", step, time);
  line["worker"] = who.value;
  file_.append(text_of(line));
}

void metrics_log::refused(uint64_t step, double time, worker_id who,
                          std::string_view reason,
                          const std::optional<cores::judged_norm>& norm) {
  auto line = line_of("refused", step, time);
  line["worker"] = who.value;
  line["reason"] = reason;
  if (norm) {
    line["norm"] = norm->norm;
    line["median"] = norm->median.value_or(0);
  }
  file_.append(text_of(line));
}

void metrics_log::epoch(uint64_t step, double time, uint64_t number,
                        const std::vector<std::optional<double>>& slowness) {
  auto line = line_of("epoch", step, time);
  line["epoch"] = number;
  for (const auto& one : slowness)
    line["slowness"].push_back(one ? ordered_json(*one) : nullptr);
  file_.append(text_of(line));
}

void metrics_log::checkpoint(uint64_t step, double time,
                             std::string_view name) {
  auto line = line_of("checkpoint", step, time);
  line["name"] = name;
  file_.append(text_of(line));
}

void metrics_log::policy_changed(uint64_t step, double time,
                                 std::string_view policy,
                                 std::optional<double> momentum) {
  auto line = line_of("policy", step, time);
  line["policy"] = policy;
  if (momentum)
    line["momentum"] = *momentum;
  file_.append(text_of(line));
}

void metrics_log::warning(uint64_t step, double time, std::string_view text) {
  auto line = line_of("warning", step, time);
  line["text"] = text;
  file_.append(text_of(line));
}

void metrics_log::stopping(uint64_t step, double time,
                           std::string_view reason) {
  auto line = line_of("stopping", step, time);
  line["reason"] = reason;
  file_.append(text_of(line));
}

void metrics_log::finished(uint64_t step, double time,
                           std::string_view status) {
  auto line = line_of("finished", step, time);
  line["status"] = status;
  file_.append(text_of(line));
}

} // namespace troupe::recording
