#include "apps/launch/ssh/copies.hpp"

#include "config/text/descriptor.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "models/storage/durable_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

namespace troupe::app {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse_path(const std::string& flag, const fs::path& path,
                              const std::string& why) {
  throw usage_error(flag + " " + config::shown(path.string()) + ": " + why);
}

copied_file describe_file(const fs::path& from, const fs::path& to) {
  copied_file out{from, to.generic_string(), models::digest_of_file(from)};
  out.size = file_size(from);
  out.mode = static_cast<uint32_t>(status(from).permissions()) & 0777u;
  return out;
}

/// The path below the working folder there.
fs::path place_of(const fs::path& path) {
  auto relative = fs::absolute(path).lexically_normal().lexically_relative(
    fs::current_path());
  auto is_below = !relative.empty() && *relative.begin() != "..";
  if (is_below)
    return relative;
  auto normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal.filename()
                               : normal.parent_path().filename();
}

[[noreturn]] void fail(const fs::path& file, const std::string& why) {
  throw run_error("cannot write " + file.string() + ": " + why);
}

std::string last_error() {
  return std::strerror(errno);
}

/// A path that leads out of the working folder would write anywhere.
void require_below(const fs::path& path) {
  if (path.empty() || path.is_absolute() ||
      std::ranges::find(path, fs::path{".."}) != path.end())
    throw run_error("a copy was to be written to " +
                    config::shown(path.string()) +
                    ", which is not below the working folder");
}

/// Whether files can be made in the folder; permissions do not tell, say, of a
/// file system that is read only.
bool can_write_to(const fs::path& folder) {
  auto name = (folder / ".troupe-XXXXXX").string();
  config::descriptor file{mkstemp(name.data())};
  return file && unlink(name.c_str()) == 0;
}

} // namespace

std::vector<copied_file> files_to_copy(const std::string& flag,
                                       const fs::path& path) try {
  std::vector<copied_file> out;
  auto place = place_of(path);
  if (!exists(path))
    refuse_path(flag, path, "there is no such file or folder");
  if (is_regular_file(path))
    return {describe_file(path, place)};
  if (!is_directory(path))
    refuse_path(flag, path, "is neither a file nor a folder");
  for (const auto& one : fs::recursive_directory_iterator{
         path, fs::directory_options::follow_directory_symlink}) {
    if (one.is_directory())
      continue;
    if (!one.is_regular_file())
      refuse_path(flag, one.path(), "is neither a file nor a folder");
    auto to = place / one.path().lexically_relative(path);
    out.push_back(describe_file(one.path(), to.lexically_normal()));
  }
  return out;
} catch (const fs::filesystem_error& why) {
  refuse_path(flag, path, why.code().message());
}

fs::path copied_files::enter(const fs::path& wanted) {
  if (can_write_to(wanted) && chdir(wanted.c_str()) == 0)
    return wanted;
  const auto* home = std::getenv("HOME");
  auto out = fs::path{home == nullptr ? "/" : home} / "troupe" /
             (wanted.has_filename() ? wanted.filename() : "launch");
  std::error_code error;
  create_directories(out, error);
  if (!error)
    current_path(out, error);
  if (error)
    throw run_error("cannot make the working folder " + out.string() + ": " +
                    error.message());
  return out;
}

bool copied_files::wants(copied_file file) {
  require_below(file.to);
  auto number = files_.size();
  files_.push_back(std::move(file));
  const auto& one = files_.back();
  std::error_code error;
  auto is_there = fs::is_regular_file(one.to, error) &&
                  fs::file_size(one.to, error) == one.size && !error;
  if (is_there && models::digest_of_file(one.to) == one.digest)
    return false;
  error.clear();
  if (auto folder = fs::path{one.to}.parent_path(); !folder.empty())
    create_directories(folder, error);
  if (error)
    fail(one.to, error.message());
  auto part = one.to + ".part-" + std::to_string(getpid());
  if (!std::ofstream{part, std::ios::binary | std::ios::trunc})
    fail(one.to, last_error());
  open_.emplace(number, part);
  return true;
}

void copied_files::add(uint64_t number, std::string_view bytes, bool last) {
  auto part = open_.find(number);
  if (part == open_.end())
    throw run_error("bytes came of a file that was not wanted");
  const auto& file = files_[number];
  std::ofstream to{part->second, std::ios::binary | std::ios::app};
  to.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  to.close();
  if (!to) {
    auto why = last_error();
    unlink(part->second.c_str());
    fail(file.to, why);
  }
  if (!last)
    return;
  auto is_whole = models::digest_of_file(part->second) == file.digest;
  if (!is_whole || chmod(part->second.c_str(), file.mode) != 0 ||
      rename(part->second.c_str(), file.to.c_str()) != 0) {
    auto why = is_whole ? last_error() : "it has changed while it was sent";
    unlink(part->second.c_str());
    fail(file.to, why);
  }
  open_.erase(part);
}

} // namespace troupe::app
