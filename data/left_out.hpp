#pragma once
// Counts the files of a data set that hold no sample, so that users see what
// is not used. Plain values; one owner.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace troupe::data {

/// Whether a file or folder of this name belongs to a system or a program and
/// not to a data set: names that begin with a dot (.ipynb_checkpoints,
/// .DS_Store, ._NAME of macOS), and those that systems and archivers make
/// beside users' files, such as __MACOSX, Thumbs.db and PaxHeaders.
bool is_hidden(std::string_view name);

/// The first part of a path with '/' that is hidden; empty if there is none.
/// "." is a place, not a name.
std::string_view hidden_part(std::string_view path);

class left_out {
public:
  /// A file that is no image, by the ending of its name.
  void add(std::string_view name);

  /// A hidden file, or a hidden folder with all that is in it.
  void add_hidden(std::string_view name);

  /// A link in an archive, unless it is hidden.
  void add_link(std::string_view path);

  /// A file of any kind that lies beside the folders of the classes.
  void add_without_class() { ++without_class_; }

  void add(const left_out& other);

  bool empty() const noexcept {
    return endings_.empty() && hidden_.empty() && without_class_ == 0;
  }

  /// "12 .webp, 1 without an ending; 2 beside the classes; hidden: 1
  /// .DS_Store"; empty if nothing is left out.
  std::string text() const;

private:
  using counts = std::map<std::string, uint64_t, std::less<>>;

  counts endings_; ///< In small letters.
  counts hidden_;
  uint64_t without_class_ = 0;
};

} // namespace troupe::data
