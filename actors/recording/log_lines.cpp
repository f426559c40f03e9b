#include "actors/recording/log_lines.hpp"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <utility>

namespace troupe::recording {

namespace {

using nlohmann::ordered_json;

/// How each of our JSON lines begins, so that others need not be parsed.
constexpr std::string_view first_of_json = "{\"level\":\"";

// Of the last lines.
constexpr size_t most_kept = 20;
constexpr size_t longest_kept = 500;

/// RFC 3339, in UTC, to the microsecond.
std::string time_text(double seconds) {
  auto micros = std::llround(seconds * 1e6);
  auto whole = static_cast<std::time_t>(micros / 1'000'000);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  std::array<char, 64> text{};
  auto size =
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text.data() + size, text.size() - size, ".%06dZ",
                static_cast<int>(micros % 1'000'000));
  return text.data();
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

template <class T>
ordered_json or_null(const std::optional<T>& x) {
  return x ? ordered_json(*x) : ordered_json(nullptr);
}

} // namespace

std::string name_of_node(std::string_view role, std::optional<uint32_t> rank) {
  return std::string{role} + (rank ? "-" + std::to_string(*rank) : "");
}

log_origin origin_of_process(std::string role, std::optional<uint32_t> rank,
                             bool named) {
  auto name = name_of_node(role, named ? rank : std::nullopt);
  return {std::move(name), std::move(role), rank, {}, host_name(), getpid()};
}

std::string_view level_of(std::string_view line) {
  if (line.starts_with("warning "))
    return "warning";
  for (std::string_view how :
       {"trainer_node: ", "failed ", "ended with status ", "first failure: "})
    if (line.starts_with(how))
      return "error";
  return "info";
}

double time_of_day() {
  std::chrono::duration<double> since =
    std::chrono::system_clock::now().time_since_epoch();
  return since.count();
}

std::string json_line(const log_origin& who, double time,
                      std::string_view line) {
  ordered_json out{{"level", level_of(line)},   {"time", time_text(time)},
                   {"node", who.node},          {"role", who.role},
                   {"rank", or_null(who.rank)}, {"life", or_null(who.life)}};
  if (!who.host.empty()) {
    out["host"] = who.host;
    if (who.pid > 0)
      out["pid"] = who.pid;
  }
  out["message"] = line;
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::optional<std::string> line_in(std::string_view json) {
  if (!json.starts_with(first_of_json))
    return std::nullopt;
  auto read = ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!read.is_object() || !read.contains("message") ||
      !read["message"].is_string())
    return std::nullopt;
  return read["message"].get<std::string>();
}

log_lines& log_lines::of_process() {
  static auto* one = new log_lines; // Lines are made to the very end.
  return *one;
}

void log_lines::use_json(log_origin who, clock time) {
  std::lock_guard guard{mutex_};
  who_ = std::move(who);
  time_ = std::move(time);
}

bool log_lines::is_json() const {
  std::lock_guard guard{mutex_};
  return who_.has_value();
}

void log_lines::seated(std::optional<uint32_t> rank,
                       std::optional<uint64_t> life) {
  std::lock_guard guard{mutex_};
  if (!who_)
    return;
  if (rank && rank != who_->rank) {
    who_->rank = rank;
    who_->node = name_of_node(who_->role, rank);
  }
  if (life)
    who_->life = life;
}

log_lines::clock log_lines::take_time_from(clock time) {
  std::lock_guard guard{mutex_};
  return std::exchange(time_, std::move(time));
}

std::string log_lines::make(std::string_view line) {
  std::lock_guard guard{mutex_};
  last_.emplace_back(line.substr(0, longest_kept));
  if (last_.size() > most_kept)
    last_.pop_front();
  return (who_ ? json_line(*who_, time_(), line) : std::string{line}) + '\n';
}

std::vector<std::string> log_lines::last() const {
  std::lock_guard guard{mutex_};
  return {last_.begin(), last_.end()};
}

} // namespace troupe::recording
