#pragma once
// `trainer_node data fetch`: downloads data sets and checks them. Only this
// command uses the network; training does not need it.
//
// Called by main; not thread-safe for the same folder.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::app {

struct remote_file {
  std::string name;
  std::string md5; ///< As published: 32 hexadecimal digits.
};

struct remote_set {
  std::string name;
  std::string mirror; ///< Where the files are by default.
  std::vector<remote_file> files;
  /// If not empty, files are .tar.gz archives, of which these members are
  /// unpacked.
  std::vector<std::string> members;
};

/// The sets that can be fetched.
const std::vector<remote_set>& remote_sets();

/// Prints a line of progress for the user; a short-lived one is overwritten by
/// the next.
using narrator = std::function<void(const std::string& line, bool short_lived)>;

/// Downloads the files of a set that `folder` lacks. A file gets its name only
/// when it is complete and its MD5 is right; an incomplete download is kept
/// beside it as NAME.part and is continued. Members appear complete or not at
/// all.
/// @param mirror Empty: that of the set.
/// @throws run_error naming the URL or file and what is wrong.
void fetch_set(const remote_set& set, const std::filesystem::path& folder,
               const std::string& mirror, const narrator& say);

} // namespace troupe::app
