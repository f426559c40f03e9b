#include "apps/startup/meeting_file.hpp"

#include "actors/recording/console.hpp"
#include "apps/startup/next_life.hpp"
#include "apps/startup/resources.hpp"
#include "config/sources/launch.hpp"
#include "config/sources/validate.hpp"
#include "config/text/failure.hpp"
#include "config/text/value.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
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

run_error trouble(const std::filesystem::path& path, const std::string& what) {
  return run_error("--init-method file://" + path.string() + ": " + what);
}

std::string text_of(int file) {
  char text[512];
  auto size = pread(file, text, sizeof text, 0);
  return {text, static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

bool is_rank_0(const config::settings& settings) {
  return settings.what == config::role::ps &&
         settings.cluster.rank.value_or(0) == 0;
}

} // namespace

meeting_file::meeting_file(std::filesystem::path path,
                           const config::address& where)
  : path_(std::move(path)),
    file_(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (file_ < 0)
    throw trouble(path_, std::strerror(errno));
  auto mine = whole_file(F_WRLCK);
  auto text = config::to_string(where) + "\n";
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
  auto text = text_of(file);
  close(file);
  if (!held || !text.ends_with('\n'))
    return std::nullopt;
  text.pop_back();
  try {
    return config::parse_address(text);
  } catch (const config::bad_value&) {
    throw trouble(path, "is no file that rank 0 writes: name a new one");
  }
}

std::unique_ptr<meeting_file> meet_by_file(config::resolved& all) {
  const auto& cluster = all.values.cluster;
  auto path = config::find_meeting_file(cluster);
  if (!path || all.values.what == config::role::simulate)
    return nullptr;
  auto take = [&](const char* id, const std::string& value) {
    all.take(
      {&config::key_of(id), value, all.origin_of("cluster.init-method")});
  };
  auto knows = this_life().has_value();
  if (is_rank_0(all.values)) {
    if (!knows)
      take("cluster.port", std::to_string(find_free_port(cluster.host)));
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
  take("cluster.host", found->host);
  take("cluster.port", std::to_string(found->port));
  config::validate(all);
  return nullptr;
}

} // namespace troupe::app
