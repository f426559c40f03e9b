#include "actors/recording/metrics_tail.hpp"

#include "config/text/failure.hpp"
#include "config/text/input_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace troupe::recording {

namespace {

/// The step of an `update` or `resumed` line, or nothing when the line is
/// another one.
std::optional<uint64_t> step_of(std::string_view line) {
  auto parsed = nlohmann::json::parse(line, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("kind") ||
      (parsed["kind"] != "update" && parsed["kind"] != "resumed") ||
      !parsed.contains("step") || !parsed["step"].is_number_unsigned())
    return std::nullopt;
  return parsed["step"].get<uint64_t>();
}

/// Searches complete lines, beginning with the last one.
std::optional<uint64_t> search_back(std::string_view lines) {
  while (!lines.empty()) {
    lines.remove_suffix(1);             // the line feed
    auto start = lines.rfind('\n') + 1; // 0 when there is none
    if (auto step = step_of(lines.substr(start)))
      return step;
    lines = lines.substr(0, start);
  }
  return std::nullopt;
}

} // namespace

std::optional<uint64_t> last_step(const std::filesystem::path& path) try {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return std::nullopt;
  config::input_file in{path};
  // Reads a longer and longer end of the file, until it contains a step.
  for (uint64_t length = 1u << 16;; length *= 4) {
    length = std::min(length, in.size());
    std::string text(length, '\0');
    if (in.read(in.size() - length, std::as_writable_bytes(std::span{text})) <
        length)
      throw run_error("cannot read " + path.string() +
                      ": it became shorter meanwhile");
    std::string_view lines = text;
    lines = lines.substr(0, lines.rfind('\n') + 1);
    if (length < in.size()) // the first line may be cut
      lines.remove_prefix(std::min(lines.find('\n'), lines.size() - 1) + 1);
    auto result = search_back(lines);
    if (result || length == in.size())
      return result;
  }
} catch (const config::unreadable& why) {
  throw run_error("cannot read " + path.string() + ": " + why.what());
}

} // namespace troupe::recording
