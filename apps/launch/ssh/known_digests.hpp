#pragma once
// Digests of files that seldom change, such as libraries: kept in the user's
// cache folder, so that a launch need not read hundreds of megabytes each time.
// One owner; not thread-safe.

#include <filesystem>
#include <map>
#include <string>

namespace troupe::app {

class known_digests {
public:
  /// Reads what was kept; nothing if that cannot be read.
  known_digests();

  /// SHA-256 in hexadecimal digits. That which was kept counts as long as the
  /// file has the same size, time of change and place on the disk. Throws
  /// `run_error`.
  std::string digest_of(const std::filesystem::path& file);

  /// Keeps what was asked for since the object exists. Does nothing where that
  /// cannot be written.
  void save() const;

private:
  std::filesystem::path place_;
  std::map<std::string, std::string> before_; ///< Digests by facts of a file.
  std::map<std::string, std::string> asked_;
};

} // namespace troupe::app
