#include "apps/launch/hosts/child.hpp"

#include "actors/recording/progress.hpp"
#include "apps/launch/hosts/spawn.hpp"
#include "config/text/failure.hpp"
#include "messages/transport/wire/socket.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace troupe::app {

namespace {

/// A longer line is passed on in pieces of so many bytes.
constexpr size_t longest_line = 64u << 10;

/// Makes a terminal that passes on unchanged what is written to it.
channel make_terminal(size_t columns) {
  channel out;
  out.ours = config::descriptor{posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
  std::array<char, 64> name{};
  if (out.ours.get() < 0 || grantpt(out.ours.get()) != 0 ||
      unlockpt(out.ours.get()) != 0 ||
      ptsname_r(out.ours.get(), name.data(), name.size()) != 0)
    return out;
  out.theirs =
    config::descriptor{open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC)};
  termios raw{};
  tcgetattr(out.theirs.get(), &raw);
  cfmakeraw(&raw);
  tcsetattr(out.theirs.get(), TCSANOW, &raw);
  winsize size{24, static_cast<unsigned short>(columns), 0, 0};
  ioctl(out.theirs.get(), TIOCSWINSZ, &size);
  return out;
}

/// The text that was drawn last in a line that was drawn several times.
std::string last_drawn(const std::string& line) {
  auto at = line.rfind(recording::erase_line);
  return at == std::string::npos
           ? line
           : line.substr(at + recording::erase_line.size());
}

} // namespace

child::child(const child_plan& plan, size_t columns) {
  auto [ours, theirs] = columns > 0 ? make_terminal(columns) : make_pipe();
  if (ours.get() < 0 || theirs.get() < 0)
    throw run_error(
      std::string{transport::system_error("starting " + plan.name).what()});
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  output_ = std::move(ours);
  program_start start{plan.name, plan.command, plan.environment};
  start.output = start.errors = theirs.get();
  pid_ = start_program(std::move(start));
}

child::~child() {
  if (pid_ <= 0 || ended())
    return;
  signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void child::read(const line_taker& say) {
  std::array<char, 16384> some{};
  while (output() >= 0) {
    auto got = ::read(output(), some.data(), some.size());
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && errno == EAGAIN)
      break;        // There is no more at the moment.
    if (got <= 0) { // A terminal that nobody has open any more fails.
      if (!rest_.empty())
        say(last_drawn(rest_));
      rest_.clear();
      output_ = {};
      break;
    }
    rest_.append(some.data(), static_cast<size_t>(got));
    size_t begin = 0;
    for (auto end = rest_.find('\n'); end != std::string::npos;
         end = rest_.find('\n', begin)) {
      say(last_drawn(rest_.substr(begin, end - begin)));
      begin = end + 1;
    }
    rest_.erase(0, begin);
    if (rest_.size() > longest_line) {
      say(last_drawn(rest_));
      rest_.clear();
    }
  }
}

std::string child::live() const {
  return last_drawn(rest_);
}

std::optional<int> child::ended() {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_)
    status_ = exit_status_of(status);
  return status_;
}

void child::signal(int number) {
  if (!status_)
    kill(-pid_, number);
}

void child::kill_rest() {
  kill(-pid_, SIGKILL);
}

} // namespace troupe::app
