#pragma once

#include "config/failure.hpp"

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace troupe::bench {

/// A folder for what a run leaves behind, removed at the end.
class folder {
public:
  folder() {
    auto name =
      (std::filesystem::temp_directory_path() / "troupe-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw run_error("cannot make a folder in " +
                      std::filesystem::temp_directory_path().string());
    path_ = name;
  }

  ~folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

private:
  std::filesystem::path path_;
};

} // namespace troupe::bench
