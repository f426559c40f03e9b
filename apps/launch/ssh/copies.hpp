#pragma once
// Files that a launch takes along to a host: its settings, and what `--copy`
// names. Those are found here; there they are looked at, and written where they
// differ. Free functions and one class, which is for one thread.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::app {

struct copied_file {
  std::filesystem::path from; ///< Here.
  std::string to;             ///< Below the working folder of the launch there.
  std::string digest;         ///< SHA-256, in hexadecimal digits.
  uint64_t size = 0;
  uint32_t mode = 0; ///< Permissions of the file.
};

/// The files that a path names: itself, or all below that folder. What lies
/// below the working folder has the same place there; of another path the last
/// name counts. Throws `usage_error` if there is no such path, or if something
/// is neither a file nor a folder.
/// @param flag What named it, for errors: "--copy".
std::vector<copied_file> files_to_copy(const std::string& flag,
                                       const std::filesystem::path& path);

/// The other side: the files of one launch on their host.
class copied_files {
public:
  /// The folder in which the processes of the launch work: that one, where it
  /// is on this machine, too, and can be written to; else `troupe/NAME` in the
  /// home folder, which is made. Becomes the working folder of this process.
  /// Throws `run_error`.
  static std::filesystem::path enter(const std::filesystem::path& wanted);

  /// Whether the file has to be sent. Its number is that of the calls before.
  bool wants(copied_file file);

  /// Adds bytes to a file that was wanted. The last ones give it its name.
  /// Throws `run_error`.
  void add(uint64_t number, std::string_view bytes, bool last);

  bool complete() const { return open_.empty(); }

private:
  std::vector<copied_file> files_;
  std::map<uint64_t, std::filesystem::path> open_; ///< Those being written.
};

} // namespace troupe::app
