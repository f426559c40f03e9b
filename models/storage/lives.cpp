#include "models/storage/lives.hpp"

#include "config/text/failure.hpp"
#include "models/storage/durable_file.hpp"

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace troupe::models {

namespace {

constexpr const char* file_name = "lives";

/// Longer than any number with its line feed.
constexpr uint64_t longest = 16;

} // namespace

uint32_t last_life(const std::filesystem::path& run) {
  auto path = run / file_name;
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return 0;
  auto bytes = read_file(path, longest);
  std::string_view text{reinterpret_cast<const char*>(bytes.span().data()),
                        bytes.size()};
  if (text.ends_with('\n'))
    text.remove_suffix(1);
  uint32_t out = 0;
  auto [end, failed] =
    std::from_chars(text.data(), text.data() + text.size(), out);
  if (failed != std::errc{} || end != text.data() + text.size())
    throw run_error(path.string() +
                    ": is not a number; write into it how often the parameter "
                    "server of this run has been started");
  return out;
}

void note_life(const std::filesystem::path& run, uint32_t life) {
  replace_file(run / file_name, std::to_string(life) + "\n");
}

} // namespace troupe::models
