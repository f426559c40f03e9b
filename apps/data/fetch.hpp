#pragma once
// `trainer_node data fetch`: downloads data sets and checks them. Nothing here
// is needed to train; the network is touched by this verb alone.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::app {

struct remote_file {
  std::string name;
  std::string md5; ///< As published, 32 hexadecimal digits.
};

struct remote_set {
  std::string name;
  std::string mirror; ///< Where the files are when no other place is named.
  std::vector<remote_file> files;
  /// Files are .tar.gz, of which these members are unpacked.
  std::vector<std::string> members;
};

/// The sets that can be fetched.
const std::vector<remote_set>& remote_sets();

/// A line of progress for the user; a short-lived one is drawn over.
using narrator = std::function<void(const std::string& line, bool short_lived)>;

/// Downloads what `folder` lacks of a set. A file has its name only when all of
/// it is there and its MD5 is right; what was begun lies beside it as NAME.part
/// and is gone on with. Members appear whole or not at all.
/// @param mirror Empty: that of the set.
/// @throws run_error naming the URL or file and what is wrong.
void fetch_set(const remote_set& what, const std::filesystem::path& folder,
               const std::string& mirror, const narrator& say);

} // namespace troupe::app
