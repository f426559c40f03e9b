#include "apps/startup/meeting_file.hpp"

#include "actors/recording/console.hpp"
#include "actors/session/lead_seeker_state.hpp"
#include "apps/startup/next_life.hpp"
#include "apps/startup/own_address.hpp"
#include "apps/startup/resources.hpp"
#include "config/rules/validate.hpp"
#include "config/run_folder/own_file.hpp"
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

run_error trouble(const config::meeting_place& place,
                  const std::string& reason) {
  return run_error(place.setting + ": " + reason);
}

/// The first line of the file, by which a file with other content is
/// recognised.
constexpr std::string_view own_line =
  "# trainer_node: where rank 0 of a run listens\n";

/// What the lead has written: where it listens, and who it is.
struct entry {
  config::address where;
  std::string who; ///< "life 3 ..."; empty while it does not know its life.
};

/// Nothing while the lead has not written it whole. Earlier releases wrote the
/// address alone. Throws `usage_error` when it is a file of something else.
std::optional<entry> entry_in(const config::meeting_place& place) {
  auto text = config::beginning_of(place.file);
  if (text.starts_with(own_line))
    text.erase(0, own_line.size());
  else if (own_line.starts_with(text))
    return std::nullopt;
  if (text.empty())
    return std::nullopt;
  auto end = text.find('\n');
  auto rest = end == text.npos ? "" : text.substr(end + 1);
  try {
    if (end == text.npos || (!rest.empty() && !rest.starts_with("life ")))
      throw config::bad_value("is no address");
    if (rest.ends_with('\n'))
      rest.pop_back();
    return entry{config::parse_address(text.substr(0, end)), rest};
  } catch (const config::bad_value&) {
    throw usage_error(place.setting + ": " + place.file.string() +
                      " is there already, as a file of something else: name a "
                      "new one");
  }
}

/// Where it listens, and who it is, for a line about another lead.
std::string line_about(const config::meeting_place& place) {
  auto found = entry_in(place);
  if (!found)
    return "";
  return " (" + config::to_string(found->where) +
         (found->who.empty() ? "" : ", " + found->who) + ")";
}

/// Whether this path still names the open file.
bool is_named(int file, const std::filesystem::path& path) {
  struct stat ours {};
  struct stat named {};
  return fstat(file, &ours) == 0 && stat(path.c_str(), &named) == 0 &&
         ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

/// The lead chooses where it listens, and where others are to dial. The port
/// that a file of settings names is for nodes that are given the address, so it
/// counts with --rdzv-backend only.
template <class F>
void place_lead(const config::resolved& all, const config::meeting_place& place,
                F set_value) {
  const auto& cluster = all.values.cluster;
  auto is_named = all.is_explicit("cluster.host");
  auto has_port =
    place.id == "cluster.rdzv-endpoint" && all.is_explicit("cluster.port");
  config::address at{cluster.host, has_port ? cluster.port : uint16_t{0}};
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
    throw trouble(place, "others cannot dial " + at.host +
                           ": say what they are to dial, with --advertise HOST "
                           "or --interface NAME");
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

meeting_file::meeting_file(config::meeting_place place,
                           const config::address& where)
  : place_(std::move(place)), where_(where) {
  entry_in(place_);        // Before anything is changed.
  std::error_code ignored; // The file cannot be opened then, either.
  if (place_.id == "cluster.rdzv-endpoint")
    std::filesystem::create_directories(place_.file.parent_path(), ignored);
  file_ = open(place_.file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0)
    throw trouble(place_, std::strerror(errno));
  auto mine = whole_file(F_WRLCK);
  try {
    if (fcntl(file_, F_OFD_SETLK, &mine) != 0)
      throw trouble(
        place_, errno == EAGAIN || errno == EACCES
                  ? "the lead of another run has this place" +
                      line_about(place_) + ": end it, or name another"
                  : "cannot be locked: " + std::string{std::strerror(errno)});
    write(config::to_string(where) + "\n");
  } catch (...) {
    close(file_);
    throw;
  }
}

meeting_file::~meeting_file() {
  if (is_named(file_, place_.file))
    unlink(place_.file.c_str());
  close(file_);
}

void meeting_file::write(const std::string& text) {
  auto all = std::string{own_line} + text;
  if (ftruncate(file_, 0) != 0 || pwrite(file_, all.data(), all.size(), 0) !=
                                    static_cast<ssize_t>(all.size()))
    throw trouble(place_, std::strerror(errno));
}

void meeting_file::note_life(life_number life) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  write(config::to_string(where_) + "\nlife " + to_string(life) + ", host " +
        host + ", process " + std::to_string(getpid()) + "\n");
}

std::optional<config::address>
read_meeting_file(const config::meeting_place& place) {
  auto file = open(place.file.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return std::nullopt;
  auto others = whole_file(F_RDLCK);
  auto held =
    fcntl(file, F_OFD_GETLK, &others) == 0 && others.l_type != F_UNLCK;
  close(file);
  auto found = entry_in(place);
  if (!held || !found)
    return std::nullopt;
  return found->where;
}

std::unique_ptr<meeting_file> meet_by_file(config::resolved& all) {
  const auto& cluster = all.values.cluster;
  auto place = config::find_meeting(cluster);
  if (!place || all.values.what == config::role::simulate)
    return nullptr;
  auto set_value = [&](const char* id, const std::string& value) {
    all.set_value({&config::key_of(id), value, all.origin_of(place->id)});
  };
  auto knows = this_life().has_value();
  if (is_rank_0(all.values)) {
    if (!knows)
      place_lead(all, *place, set_value);
    return std::make_unique<meeting_file>(
      *place, config::address{cluster.host, cluster.port});
  }
  if (knows)
    return nullptr;
  recording::say("looking for  the lead in " + place->file.string());
  auto patience = std::chrono::duration<double>(cluster.connect_timeout);
  auto end = std::chrono::steady_clock::now() + patience;
  auto found = read_meeting_file(*place);
  for (; !found && std::chrono::steady_clock::now() < end;
       found = read_meeting_file(*place))
    std::this_thread::sleep_for(look_again);
  if (!found)
    throw trouble(*place, "no lead has written where it is within " +
                            config::print(cluster.connect_timeout) +
                            " s: does it run, and do all nodes share this "
                            "folder?");
  if (!cluster.leaves_host())
    config::require_loopback(*found, named_by_file);
  set_value("cluster.host", found->host);
  set_value("cluster.port", std::to_string(found->port));
  config::validate(all);
  return nullptr;
}

} // namespace troupe::app
