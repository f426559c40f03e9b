#include "actors/user_process/process_line.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace troupe::external {

namespace {

using clock = std::chrono::steady_clock;
using transport::descriptor;
using transport::system_error;

constexpr auto between_looks = std::chrono::milliseconds(100);

int process_at(const descriptor& connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    throw system_error("asking who has connected");
  return peer.pid;
}

// glibc 2.36 has a function for this; older releases do not.
descriptor open_process(int pid) {
  descriptor out{static_cast<int>(syscall(SYS_pidfd_open, pid, 0))};
  if (!out)
    throw system_error("watching process " + std::to_string(pid));
  return out;
}

bool is_readable(const pollfd& one) {
  return (one.revents & (POLLIN | POLLHUP | POLLERR)) != 0;
}

} // namespace

process_line::process_line(descriptor connection, double patience)
  : pid_(process_at(connection)), process_(open_process(pid_)),
    line_(std::move(connection)), patience_(patience) {
  line_.patience(patience);
}

void process_line::send(process_frame_kind kind, uint64_t number,
                        const std::string& body, int file) {
  std::lock_guard guard{mutex_};
  if (ended_)
    return;
  frame_header head{kind, static_cast<uint32_t>(body.size()), number};
  std::array parts{iovec{&head, sizeof head},
                   iovec{const_cast<char*>(body.data()), body.size()}};
  std::span<iovec> all{parts};
  try {
    line_.send(all, true, file);
  } catch (const transport::path_error&) {
    // If the process has ended, the receiving thread finds that out.
    if (why_closed_.empty() && !line_.is_cut())
      why_closed_ = "process " + std::to_string(pid_) +
                    " has not read what it was sent for " +
                    config::print(patience_) + " s";
    line_.shutdown();
  }
}

std::optional<process_frame> process_line::receive() try {
  if (!wait(-1).first)
    return close("process " + std::to_string(pid_) +
                 ", which computes for this worker, has ended");
  frame_header head;
  iovec one{&head, sizeof head};
  if (!line_.receive({&one, 1}, nullptr))
    return close("process " + std::to_string(pid_) +
                 ", which computes for this worker, has closed its connection");
  if (head.bytes > most_body)
    return close("process " + std::to_string(pid_) + " sent a frame of " +
                 std::to_string(head.bytes) + " bytes");
  process_frame out{head.kind, head.number, std::string(head.bytes, 0)};
  iovec rest{out.body.data(), out.body.size()};
  if (head.bytes > 0 && !line_.receive({&rest, 1}, nullptr))
    return close("process " + std::to_string(pid_) +
                 " ended in the middle of a frame");
  return out;
} catch (const transport::path_error& err) {
  return close("process " + std::to_string(pid_) + ": " + err.what());
}

bool process_line::wait_for(double seconds) {
  auto [line, process] = wait(static_cast<int>(seconds * 1000));
  return line || process;
}

bool process_line::ends_within(double seconds) const {
  pollfd one{process_.get(), POLLIN, 0};
  return poll(&one, 1, static_cast<int>(seconds * 1000)) > 0;
}

/// Whether the connection can be read, and whether the process has ended.
std::pair<bool, bool> process_line::wait(int milliseconds) const {
  std::array<pollfd, 2> both{pollfd{line_.get(), POLLIN, 0},
                             pollfd{process_.get(), POLLIN, 0}};
  while (poll(both.data(), both.size(), milliseconds) < 0)
    if (errno != EINTR)
      throw system_error("waiting for frames");
  return {is_readable(both[0]), is_readable(both[1])};
}

std::optional<process_frame> process_line::close(std::string why) {
  std::lock_guard guard{mutex_};
  if (why_closed_.empty())
    why_closed_ = std::move(why);
  line_.shutdown();
  return std::nullopt;
}

std::string process_line::why_closed() const {
  std::lock_guard guard{mutex_};
  return why_closed_;
}

void process_line::end(const run_end& how) {
  send(process_frame_kind::end, 0,
       body_writer{}.put(how.status).put(how.line).take_bytes());
  std::lock_guard guard{mutex_};
  ended_ = true;
  line_.shutdown();
}

// -- the first frame ----------------------------------------------------------

namespace {

/// A socket that listens at a path, while the object lives.
class listening {
public:
  explicit listening(const std::filesystem::path& where) : where_(where) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    auto text = where.string();
    if (text.size() >= sizeof address.sun_path)
      throw run_error(text + ": the path of a socket has at most " +
                      std::to_string(sizeof address.sun_path - 1) + " bytes");
    std::memcpy(address.sun_path, text.data(), text.size());
    file_ = descriptor{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (!file_)
      throw run_error(system_error(text).what());
    const auto* at = reinterpret_cast<const sockaddr*>(&address);
    if (bind(file_.get(), at, sizeof address) != 0)
      throw run_error(std::string{system_error(text).what()} +
                      "; --compute-socket needs a path that is free");
    made_ = true;
    // Connections wait here; only this user's processes may make one.
    if (chmod(text.c_str(), 0600) != 0 || listen(file_.get(), 1) != 0)
      throw run_error(system_error(text).what());
  }

  ~listening() {
    if (made_)
      ::unlink(where_.c_str());
  }

  listening(const listening&) = delete;
  listening& operator=(const listening&) = delete;

  /// The next connection; nothing if nobody has connected by now.
  descriptor next() const {
    pollfd one{file_.get(), POLLIN, 0};
    if (poll(&one, 1, static_cast<int>(between_looks.count())) <= 0)
      return {};
    return descriptor{accept4(file_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  }

private:
  std::filesystem::path where_;
  descriptor file_;
  bool made_ = false;
};

hello hello_of(const process_frame& first, int pid) {
  auto who = "process " + std::to_string(pid);
  if (first.kind != process_frame_kind::hello)
    throw run_error(who + " did not begin with hello");
  if (first.number != frame_version)
    throw run_error(who + " speaks version " + std::to_string(first.number) +
                    " of the frames, and this program version " +
                    std::to_string(frame_version) +
                    ": use the same release of both");
  body_reader from{std::as_bytes(std::span{first.body})};
  hello out;
  out.samples = from.number<uint64_t>();
  out.leases = from.number<uint32_t>();
  out.dataset = from.text();
  out.gpu = from.text();
  if (!from.complete())
    throw run_error(who + " sent a hello of another form");
  return out;
}

} // namespace

std::pair<process_line_ptr, hello>
wait_for_process(const std::filesystem::path& where, double seconds,
                 const std::function<bool()>& interrupted) try {
  auto until = clock::now() + std::chrono::duration<double>(seconds);
  descriptor connection;
  {
    listening at{where};
    while (!(connection = at.next())) {
      if (interrupted())
        throw run_error("stopped before a process connected to " +
                        where.string());
      if (clock::now() > until)
        throw run_error(where.string() + ": no process has connected in " +
                        config::print(seconds) +
                        " s (--compute-timeout); start the one that computes");
    }
  }
  auto line = std::make_shared<process_line>(std::move(connection));
  auto first = line->receive();
  if (!first)
    throw run_error(line->why_closed());
  try {
    return {line, hello_of(*first, line->pid())};
  } catch (const failure& why) {
    line->end({1, why.what()});
    throw;
  }
} catch (const transport::path_error& err) {
  throw run_error(where.string() + ": " + err.what());
}

} // namespace troupe::external
