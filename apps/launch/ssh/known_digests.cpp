#include "apps/launch/ssh/known_digests.hpp"

#include "config/text/text.hpp"
#include "models/storage/durable_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <system_error>

namespace troupe::app {

namespace fs = std::filesystem;

namespace {

/// Empty where there is none.
fs::path cache_folder() {
  if (const auto* given = std::getenv("XDG_CACHE_HOME"); given && *given)
    return fs::path{given} / "troupe";
  const auto* home = std::getenv("HOME");
  return home && *home ? fs::path{home} / ".cache" / "troupe" : fs::path{};
}

/// What changes when the file does; empty if there is no such file, or if its
/// name cannot stand in a line.
std::string facts_of(const fs::path& file) {
  struct stat found {};
  if (stat(file.c_str(), &found) != 0 ||
      config::has_control_character(file.string()))
    return {};
  auto out = file.string();
  for (auto one : {static_cast<long long>(found.st_dev),
                   static_cast<long long>(found.st_ino),
                   static_cast<long long>(found.st_size),
                   static_cast<long long>(found.st_mtim.tv_sec),
                   static_cast<long long>(found.st_mtim.tv_nsec),
                   static_cast<long long>(found.st_ctim.tv_sec),
                   static_cast<long long>(found.st_ctim.tv_nsec)})
    out += " " + std::to_string(one);
  return out;
}

} // namespace

known_digests::known_digests() {
  constexpr size_t digits = 64;
  if (auto folder = cache_folder(); !folder.empty())
    place_ = folder / "launch-digests";
  std::ifstream from{place_};
  for (std::string line; std::getline(from, line);)
    if (line.size() > digits && line[digits] == ' ')
      before_[line.substr(digits + 1)] = line.substr(0, digits);
}

std::string known_digests::digest_of(const fs::path& file) {
  auto facts = facts_of(file);
  auto known = before_.find(facts);
  auto out =
    known == before_.end() ? models::digest_of_file(file) : known->second;
  if (!facts.empty())
    asked_[facts] = out;
  return out;
}

void known_digests::save() const {
  if (place_.empty() || asked_ == before_)
    return;
  std::error_code error;
  create_directories(place_.parent_path(), error);
  auto part = place_.string() + "-" + std::to_string(getpid());
  std::ofstream to{part};
  for (const auto& [facts, digest] : asked_)
    to << digest << " " << facts << "\n";
  to.close();
  if (to)
    rename(part, place_, error);
  else
    remove(fs::path{part}, error);
}

} // namespace troupe::app
