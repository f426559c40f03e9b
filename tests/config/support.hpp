#pragma once
// Helpers shared by the tests of config/.

#include "config/commands/command_line.hpp"
#include "config/text/failure.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace troupe::config::test {

/// A temporary folder, removed by its destructor.
class scratch {
public:
  scratch() {
    auto pattern =
      (std::filesystem::temp_directory_path() / "troupe-config-XXXXXX")
        .string();
    if (!::mkdtemp(pattern.data()))
      throw std::runtime_error("no scratch folder: " + pattern);
    path_ = pattern;
  }

  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;

  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

  /// Writes a file; returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file, std::ios::binary} << text;
    return file.string();
  }

private:
  std::filesystem::path path_;
};

inline invocation parse(std::vector<std::string> arguments,
                        const environment& variables = {}) {
  return parse_command_line(arguments, variables);
}

/// Settings as `--print-config` resolves them: without the checks between keys.
inline resolved resolved_from(std::vector<std::string> arguments,
                              const environment& variables = {}) {
  arguments.push_back("--print-config");
  return parse(std::move(arguments), variables).config;
}

/// The line of the `usage_error` that `work` throws; empty when it throws none.
template <class Work>
std::string complaint(Work work) {
  try {
    work();
    return "";
  } catch (const usage_error& error) {
    return error.what();
  }
}

/// "--a 1 --b" as arguments.
inline std::vector<std::string> split(const std::string& line) {
  std::istringstream in{line};
  std::vector<std::string> result;
  for (std::string word; in >> word;)
    result.push_back(word);
  return result;
}

} // namespace troupe::config::test
