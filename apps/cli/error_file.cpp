#include "apps/cli/error_file.hpp"

#include "actors/recording/log_lines.hpp"
#include "config/text/text.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace troupe::app {

// The launcher does without a file that cannot be written.
void write_error_file(const std::string& line) {
  const auto* wanted = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (wanted == nullptr || *wanted == 0)
    return;
  std::error_code absent;
  auto size = std::filesystem::file_size(wanted, absent);
  if (!absent && size > 0)
    return;
  auto now = static_cast<int64_t>(recording::time_of_day());
  nlohmann::ordered_json out;
  out["message"]["message"] = line;
  out["message"]["extraInfo"] = {
    {"py_callstack",
     config::join(recording::log_lines::of_process().last(), "\n")},
    {"timestamp", std::to_string(now)}};
  std::ofstream{wanted} << out.dump(
    -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace troupe::app
