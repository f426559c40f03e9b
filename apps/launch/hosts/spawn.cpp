#include "apps/launch/hosts/spawn.hpp"

#include "config/text/failure.hpp"
#include "messages/transport/wire/socket.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace troupe::app {

namespace {

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

/// The files of a process that is being started.
struct standard_files {
  int input;
  int output;
  int errors;
};

/// Runs in the child before its program, so it makes only calls that are safe
/// after a fork.
/// @param hint After the reason why the program cannot be started.
[[noreturn]] void become(char** command, char** environment,
                         const standard_files& files, pid_t parent,
                         const char* hint) {
  setpgid(0, 0); // Ctrl-C is for the launcher, which passes it on.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
  dup2(files.input < 0 ? open("/dev/null", O_RDONLY) : files.input,
       STDIN_FILENO);
  dup2(files.output, STDOUT_FILENO);
  dup2(files.errors, STDERR_FILENO);
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

channel make_pipe() {
  std::array<int, 2> ends{-1, -1};
  (void)pipe2(ends.data(), O_CLOEXEC);
  return {config::descriptor{ends[0]}, config::descriptor{ends[1]}};
}

pid_t start_program(program_start start) {
  auto environment = environment_with(start.environment);
  auto arguments = pointers_to(start.command);
  auto variables = pointers_to(environment);
  auto parent = getpid();
  auto hint = start.command.front().ends_with(".py")
                ? "; give Python, too: -- python " + start.command.front()
                : std::string{};
  auto pid = fork();
  if (pid == 0)
    become(arguments.data(), variables.data(),
           {start.input, start.output, start.errors}, parent, hint.c_str());
  if (pid < 0)
    throw run_error(transport::system_error("starting " + start.name).what());
  setpgid(pid, pid);
  return pid;
}

int exit_status_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace troupe::app
