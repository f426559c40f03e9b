#include "models/storage/lives.hpp"

#include "config/text/failure.hpp"
#include "models/storage/durable_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

namespace troupe::models {

namespace {

constexpr const char* lives_file = "lives";

/// Longer than any number with a word and a line feed.
constexpr uint64_t longest_life = 64;

bool is_life_word(std::string_view text) {
  constexpr size_t digits = 16;
  return text.size() == digits &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string random_life_word() {
  std::random_device source;
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%08x%08x", source(), source());
  return text.data();
}

} // namespace

// Opens the file anew each time, since a network file system looks only then
// whether it has been replaced. A file that cannot be read says nothing.
void life_claim::require() const {
  auto path = run_ / lives_file;
  auto file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return;
  std::array<char, longest_life> text;
  auto size = ::read(file, text.data(), text.size());
  ::close(file);
  if (size <= 0)
    return;
  std::string_view found{text.data(), static_cast<size_t>(size)};
  if (found != written_)
    throw run_error("train-dir " + run_.string() +
                    ": another process leads this run since (" + path.string() +
                    " says so): this one writes nothing more");
}

// Earlier releases wrote the number alone.
uint32_t last_life(const std::filesystem::path& run) {
  auto path = run / lives_file;
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return 0;
  auto bytes = read_file(path, longest_life);
  std::string_view text{reinterpret_cast<const char*>(bytes.span().data()),
                        bytes.size()};
  if (text.ends_with('\n'))
    text.remove_suffix(1);
  if (auto blank = text.find(' ');
      blank != text.npos && is_life_word(text.substr(blank + 1)))
    text = text.substr(0, blank);
  uint32_t out = 0;
  auto [end, failed] =
    std::from_chars(text.data(), text.data() + text.size(), out);
  if (failed != std::errc{} || end != text.data() + text.size())
    throw run_error(path.string() +
                    ": is not a number; write into it how often the parameter "
                    "server of this run has been started");
  return out;
}

life_claim_ptr note_life(const std::filesystem::path& run, uint32_t life) {
  auto text = std::to_string(life) + " " + random_life_word() + "\n";
  replace_file(run / lives_file, text);
  return std::make_shared<const life_claim>(run, std::move(text));
}

} // namespace troupe::models
