#include "config/text/home.hpp"

#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace troupe::config {

namespace {

std::string home_of(const std::string& user) {
  if (const auto* home = std::getenv("HOME");
      user.empty() && home != nullptr && *home != '\0')
    return home;
  const auto* entry =
    user.empty() ? getpwuid(geteuid()) : getpwnam(user.c_str());
  if (entry == nullptr || entry->pw_dir == nullptr)
    throw bad_value((user.empty() ? "HOME is not set, and this user"
                                  : "user " + in_quotes(user)) +
                    " has no home folder; a file whose name begins with ~ is "
                    "./~" +
                    shown(user));
  return entry->pw_dir;
}

} // namespace

std::string expand_home(std::string_view path) {
  if (!path.starts_with('~'))
    return std::string{path};
  auto end = std::min(path.find('/'), path.size());
  auto home = home_of(std::string{path.substr(1, end - 1)});
  auto rest = path.substr(end);
  if (home.ends_with('/') && !rest.empty())
    home.pop_back();
  return home.append(rest);
}

} // namespace troupe::config
