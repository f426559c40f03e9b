#include "actors/recording/first_failure.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace troupe::recording {

namespace {

using nlohmann::ordered_json;

// Of what another node says.
constexpr size_t most_lines = 60;
constexpr size_t longest_line = 500;

/// s between the end of a process and the loss of its connection.
constexpr double same_event = 5;

/// s by which clocks and messages may be late.
constexpr double doubt = 0.5;

std::string clean(std::string_view line) {
  std::string out{line.substr(0, longest_line)};
  std::ranges::replace_if(
    out, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return out;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin < text.size();) {
    auto end = std::min(text.find('\n', begin), text.size());
    out.push_back(clean(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return out;
}

template <class T>
ordered_json if_known(bool known, const T& value) {
  return known ? ordered_json(value) : ordered_json(nullptr);
}

failed_process read_one(const ordered_json& from) {
  failed_process out;
  out.role = from.at("role");
  if (!from.at("rank").is_null())
    out.rank = from.at("rank").get<uint32_t>();
  if (!from.at("host").is_null())
    out.host = from.at("host");
  if (!from.at("pid").is_null())
    out.pid = from.at("pid").get<int>();
  out.time = from.at("time");
  out.what = from.at("what");
  out.lines = from.at("lines").get<std::vector<std::string>>();
  return out;
}

} // namespace

bool is_failure(std::string_view reason) {
  return reason != worker_ended && reason != worker_pauses &&
         reason != worker_changes_path;
}

std::string to_text(const departure_reason& reason) {
  auto out = reason.what;
  for (const auto& line : reason.lines)
    out += "\n" + line;
  return out;
}

// The last lines say most.
departure_reason read_reason(std::string_view text) {
  auto all = lines_of(text);
  if (all.empty())
    return {};
  departure_reason out{all.front()};
  auto begin = all.begin() + 1;
  if (all.size() > most_lines)
    begin = all.end() - static_cast<long>(most_lines);
  out.lines.assign(begin, all.end());
  return out;
}

std::string to_json(const failed_process& one) {
  ordered_json out{
    {"role", one.role},
    {"rank", if_known(one.rank.has_value(), one.rank.value_or(0))},
    {"host", if_known(!one.host.empty(), one.host)},
    {"pid", if_known(one.pid.has_value(), one.pid.value_or(0))},
    {"time", one.time},
    {"what", one.what},
    {"lines", one.lines}};
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::vector<failed_process> read_failures(const std::filesystem::path& from) {
  std::vector<failed_process> out;
  std::ifstream file{from};
  for (std::string line; std::getline(file, line);)
    try {
      out.push_back(read_one(ordered_json::parse(line)));
    } catch (const ordered_json::exception&) {
      break; // It is being written.
    }
  return out;
}

std::optional<failed_process>
first_failure(const std::optional<failed_process>& seen,
              const std::vector<failed_process>& launched) {
  if (launched.empty() || !seen)
    return launched.empty() ? seen : launched.front();
  auto out = *seen;
  auto same = std::ranges::find_if(launched, [&](const failed_process& one) {
    return one.role == out.role && one.rank == out.rank &&
           std::abs(one.time - out.time) < same_event;
  });
  const auto& earliest = launched.front();
  if (same != launched.begin() && earliest.time < out.time - doubt)
    return earliest;
  if (same == launched.end())
    return out;
  out.what += "; its process " + same->what;
  out.pid = same->pid;
  if (out.lines.empty())
    out.lines = same->lines;
  return out;
}

} // namespace troupe::recording
