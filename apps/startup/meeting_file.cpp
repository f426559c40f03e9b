#include "apps/startup/meeting_file.hpp"

#include "actors/recording/console.hpp"
#include "apps/startup/next_life.hpp"
#include "apps/startup/own_address.hpp"
#include "apps/startup/resources.hpp"
#include "config/rules/validate.hpp"
#include "config/run_folder/own_file.hpp"
#include "config/sources/launcher.hpp"
#include "config/text/failure.hpp"
#include "config/text/value.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

namespace troupe::app {

namespace {

using namespace std::chrono_literals;

constexpr auto look_again = 50ms;

/// A lock of all of the file, which ends with its descriptor.
struct flock whole_file(short kind) {
  struct flock out {};
  out.l_type = kind;
  out.l_whence = SEEK_SET;
  return out;
}

run_error trouble(const std::filesystem::path& path,
                  const std::string& reason) {
  return run_error("--init-method file://" + path.string() + ": " + reason);
}

/// The first line of the file, by which a file with other content is
/// recognised.
constexpr std::string_view own_line =
  "# trainer_node: where rank 0 of a run listens\n";

/// The address in it; nothing while rank 0 has not written it whole. Earlier
/// releases wrote the address alone. Throws `usage_error` when it is a file of
/// something else.
std::optional<config::address> address_in(const std::filesystem::path& path) {
  auto text = config::beginning_of(path);
  if (text.starts_with(own_line))
    text.erase(0, own_line.size());
  else if (own_line.starts_with(text))
    return std::nullopt;
  if (text.empty())
    return std::nullopt;
  try {
    if (text.find('\n') != text.size() - 1)
      throw config::bad_value("is not one line");
    text.pop_back();
    return config::parse_address(text);
  } catch (const config::bad_value&) {
    throw usage_error("--init-method file://" + path.string() +
                      ": is there already, as a file of something else: name a "
                      "new file");
  }
}

/// Whether this path still names the open file.
bool is_named(int file, const std::filesystem::path& path) {
  struct stat ours {};
  struct stat named {};
  return fstat(file, &ours) == 0 && stat(path.c_str(), &named) == 0 &&
         ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

/// Rank 0 chooses where it listens, and where others are to dial.
template <class F>
void place_lead(const config::resolved& all, F set_value) {
  const auto& cluster = all.values.cluster;
  auto is_named = all.is_explicit("cluster.host");
  config::address at{cluster.host, 0};
  if (!cluster.listen.empty())
    at = config::parse_address(cluster.listen);
  else if (!cluster.interface.empty() && !is_named)
    at.host = address_of_interface(cluster.interface);
  if (!cluster.leaves_host())
    config::require_loopback(at, "--interface " + cluster.interface);
  if (at.port == 0)
    at.port = find_free_port(at.host);
  auto is_told = !cluster.advertise.empty() || !cluster.interface.empty();
  if (config::is_any_host(at.host) && !is_named && !is_told)
    throw run_error("--init-method " + cluster.init_method +
                    ": others cannot dial " + at.host +
                    ": say what they are to dial, with --advertise HOST or "
                    "--interface NAME");
  set_value("cluster.listen", config::to_string(at));
  set_value("cluster.port", std::to_string(at.port));
  if (!is_named)
    set_value("cluster.host", at.host);
  auto told = advertised_at(cluster, at, true);
  set_value("cluster.host", told.host);
  set_value("cluster.port", std::to_string(told.port));
}

bool is_rank_0(const config::settings& settings) {
  return settings.what == config::role::ps &&
         settings.cluster.rank.value_or(0) == 0;
}

} // namespace

meeting_file::meeting_file(std::filesystem::path path,
                           const config::address& where)
  : path_(std::move(path)) {
  address_in(path_); // Before anything is changed.
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0)
    throw trouble(path_, std::strerror(errno));
  auto mine = whole_file(F_WRLCK);
  auto text = std::string{own_line} + config::to_string(where) + "\n";
  auto fail = [this](const std::string& why) {
    close(file_);
    throw trouble(path_, why);
  };
  if (fcntl(file_, F_OFD_SETLK, &mine) != 0)
    fail(errno == EAGAIN || errno == EACCES
           ? "rank 0 of another cluster has this file; name another"
           : "cannot be locked: " + std::string{std::strerror(errno)});
  if (ftruncate(file_, 0) != 0 || pwrite(file_, text.data(), text.size(), 0) !=
                                    static_cast<ssize_t>(text.size()))
    fail(std::strerror(errno));
}

meeting_file::~meeting_file() {
  if (is_named(file_, path_))
    unlink(path_.c_str());
  close(file_);
}

std::optional<config::address>
read_meeting_file(const std::filesystem::path& path) {
  auto file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return std::nullopt;
  auto others = whole_file(F_RDLCK);
  auto held =
    fcntl(file, F_OFD_GETLK, &others) == 0 && others.l_type != F_UNLCK;
  close(file);
  auto found = address_in(path);
  return held ? found : std::nullopt;
}

std::unique_ptr<meeting_file> meet_by_file(config::resolved& all) {
  const auto& cluster = all.values.cluster;
  auto path = config::find_meeting_file(cluster);
  if (!path || all.values.what == config::role::simulate)
    return nullptr;
  auto set_value = [&](const char* id, const std::string& value) {
    all.set_value(
      {&config::key_of(id), value, all.origin_of("cluster.init-method")});
  };
  auto knows = this_life().has_value();
  if (is_rank_0(all.values)) {
    if (!knows)
      place_lead(all, set_value);
    return std::make_unique<meeting_file>(
      *path, config::address{cluster.host, cluster.port});
  }
  if (knows)
    return nullptr;
  recording::say("looking for  rank 0 in " + path->string());
  auto patience = std::chrono::duration<double>(cluster.connect_timeout);
  auto end = std::chrono::steady_clock::now() + patience;
  auto found = read_meeting_file(*path);
  for (; !found && std::chrono::steady_clock::now() < end;
       found = read_meeting_file(*path))
    std::this_thread::sleep_for(look_again);
  if (!found)
    throw trouble(*path, "rank 0 has written nothing there within " +
                           config::print(cluster.connect_timeout) +
                           " s: does it run, and do all nodes share this "
                           "folder?");
  if (!cluster.leaves_host())
    config::require_loopback(*found, "the file of --init-method");
  set_value("cluster.host", found->host);
  set_value("cluster.port", std::to_string(found->port));
  config::validate(all);
  return nullptr;
}

} // namespace troupe::app
