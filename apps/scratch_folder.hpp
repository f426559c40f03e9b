#pragma once
// A temporary folder. Owned by the object; not thread-safe.

#include "config/text/failure.hpp"

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace troupe::app {

/// Makes a new temporary folder, and removes it at the end of its lifetime.
/// Throws `run_error`.
class scratch_folder {
public:
  scratch_folder() {
    auto name =
      (std::filesystem::temp_directory_path() / "troupe-scratch-XXXXXX")
        .string();
    if (::mkdtemp(name.data()) == nullptr)
      throw run_error("cannot make a folder in " +
                      std::filesystem::temp_directory_path().string() +
                      "; set TMPDIR to a place that can be written");
    path_ = name;
  }

  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

private:
  std::filesystem::path path_;
};

} // namespace troupe::app
