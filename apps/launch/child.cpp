#include "apps/launch/child.hpp"

#include "actors/recording/progress.hpp"
#include "apps/launch/node_lines.hpp"
#include "config/text/failure.hpp"

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

struct channel {
  transport::descriptor ours;
  transport::descriptor theirs;
};

channel make_pipe() {
  std::array<int, 2> ends{-1, -1};
  (void)pipe2(ends.data(), O_CLOEXEC);
  return {transport::descriptor{ends[0]}, transport::descriptor{ends[1]}};
}

/// Makes a terminal that passes on unchanged what is written to it.
channel make_terminal(size_t columns) {
  channel out;
  out.ours = transport::descriptor{posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
  std::array<char, 64> name{};
  if (out.ours.get() < 0 || grantpt(out.ours.get()) != 0 ||
      unlockpt(out.ours.get()) != 0 ||
      ptsname_r(out.ours.get(), name.data(), name.size()) != 0)
    return out;
  out.theirs =
    transport::descriptor{open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC)};
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

std::vector<char*> pointers_to(std::vector<std::string>& all) {
  std::vector<char*> out;
  for (auto& one : all)
    out.push_back(one.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string>
environment_with(const std::map<std::string, std::string>& added) {
  std::vector<std::string> out;
  for (auto** one = environ; *one != nullptr; ++one) {
    std::string entry{*one};
    if (!added.contains(entry.substr(0, entry.find('='))))
      out.push_back(std::move(entry));
  }
  for (const auto& [name, value] : added)
    out.push_back(name + "=" + value);
  return out;
}

/// Runs in the child before its program, so it makes only calls that are safe
/// after a fork.
/// @param hint After the reason why the program cannot be started.
[[noreturn]] void become(char** command, char** environment, int output,
                         pid_t parent, const char* hint) {
  setpgid(0, 0); // Ctrl-C is for the launcher, which passes it on.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
  auto nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execvpe(command[0], command, environment);
  auto why = std::strerror(errno);
  for (const auto* part :
       {"trainer_node: cannot start ", static_cast<const char*>(command[0]),
        ": ", static_cast<const char*>(why), hint, "\n"})
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0)
      break;
  _exit(127);
}

} // namespace

child::child(const child_plan& plan, const std::filesystem::path& log,
             size_t columns)
  : name_(plan.name), as_json_(plan.as_json), log_(nullptr, std::fclose) {
  auto [ours, theirs] = columns > 0 ? make_terminal(columns) : make_pipe();
  if (ours.get() < 0 || theirs.get() < 0)
    throw run_error(
      std::string{transport::system_error("starting " + plan.name).what()});
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  output_ = std::move(ours);
  if (!log.empty()) {
    log_.reset(std::fopen(log.c_str(), "ae"));
    if (!log_)
      throw run_error(transport::system_error(log.string()).what());
  }
  auto command = plan.command;
  auto environment = environment_with(plan.environment);
  auto arguments = pointers_to(command);
  auto variables = pointers_to(environment);
  auto parent = getpid();
  auto hint = command.front().ends_with(".py")
                ? "; give Python, too: -- python " + command.front()
                : std::string{};
  pid_ = fork();
  if (pid_ == 0)
    become(arguments.data(), variables.data(), theirs.get(), parent,
           hint.c_str());
  if (pid_ < 0)
    throw run_error(transport::system_error("starting " + plan.name).what());
  setpgid(pid_, pid_);
}

child::~child() {
  if (pid_ <= 0 || ended())
    return;
  signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void child::read(const std::function<void(const std::string&)>& say) {
  std::array<char, 16384> some{};
  for (;;) {
    auto got = ::read(output(), some.data(), some.size());
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && errno == EAGAIN)
      break;        // There is no more at the moment.
    if (got <= 0) { // A terminal that nobody has open any more fails.
      if (!rest_.empty())
        pass_on(rest_, say);
      rest_.clear();
      output_ = {};
      break;
    }
    rest_.append(some.data(), static_cast<size_t>(got));
    size_t begin = 0;
    for (auto end = rest_.find('\n'); end != std::string::npos;
         end = rest_.find('\n', begin)) {
      pass_on(rest_.substr(begin, end - begin), say);
      begin = end + 1;
    }
    rest_.erase(0, begin);
    if (rest_.size() > longest_line) {
      pass_on(rest_, say);
      rest_.clear();
    }
  }
  if (log_)
    std::fflush(log_.get());
}

void child::pass_on(const std::string& drawn,
                    const std::function<void(const std::string&)>& say) {
  auto line = last_drawn(drawn);
  if (as_json_)
    line = json_line_of(name_, pid_, line);
  if (log_)
    std::fprintf(log_.get(), "%s\n", line.c_str());
  say(line);
}

std::string child::live() const {
  return last_drawn(rest_);
}

std::optional<int> child::ended() {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_)
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

void child::signal(int number) const {
  if (!status_)
    kill(-pid_, number);
}

void child::kill_rest() const {
  kill(-pid_, SIGKILL);
}

} // namespace troupe::app
