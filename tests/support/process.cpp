#include "tests/support/process.hpp"

#include "tests/support/temporary_folder.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

namespace troupe::testing {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// The test's environment without variables that the program under test reads,
/// but for the device that a test gives to all that it starts.
std::vector<std::string> environment_of(const child_options& how) {
  std::vector<std::string> result;
  for (auto entry = environ; *entry != nullptr; ++entry)
    if (std::string_view text{*entry};
        !text.starts_with("TROUPE_") ||
        text.starts_with("TROUPE_CUDA_LIBRARY=") ||
        text.starts_with("TROUPE_NCCL_LIBRARY="))
      result.emplace_back(*entry);
  for (const auto& [name, value] : how.environment)
    result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts)
    result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

void redirect(int to, const std::string& path, int flags) {
  auto file = ::open(path.c_str(), flags, 0644);
  if (file < 0 || ::dup2(file, to) < 0)
    ::_exit(126);
  ::close(file);
}

void limit_files(uint64_t bytes) {
  rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, SIG_IGN); // Writing fails, instead of the process.
}

void limit(int resource, std::optional<uint64_t> most) {
  if (!most)
    return;
  rlimit limits{*most, *most};
  ::setrlimit(static_cast<__rlimit_resource>(resource), &limits);
}

std::string end_of(const std::string& text) {
  constexpr size_t most = 3000;
  return text.size() <= most ? text : "..." + text.substr(text.size() - most);
}

bool can_listen(uint16_t port) {
  auto fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto free =
    fd >= 0 &&
    ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
    ::listen(fd, 1) == 0;
  ::close(fd);
  return free;
}

} // namespace

void eventually(const std::string& event, const std::function<bool()>& done,
                std::chrono::seconds limit) {
  auto deadline = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("waited in vain for " + event);
    std::this_thread::sleep_for(5ms);
  }
}

uint16_t free_port() {
  std::random_device source;
  std::uniform_int_distribution<int> ports{10000, 32000};
  for (int i = 0; i < 1000; ++i)
    if (auto port = static_cast<uint16_t>(ports(source)); can_listen(port))
      return port;
  throw std::runtime_error("there is no free port");
}

child::child(const std::vector<std::string>& command, fs::path stem,
             const child_options& how)
  : stem_(std::move(stem)) {
  auto variables = environment_of(how);
  auto arguments = pointers(command);
  auto environment = pointers(variables);
  auto out = stem_.string() + ".out";
  auto err = stem_.string() + ".err";
  auto parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0)
    throw std::runtime_error("cannot fork");
  if (pid_ > 0)
    return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(126);
  ::signal(SIGHUP, how.under_nohup ? SIG_IGN : SIG_DFL);
  redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
  redirect(STDOUT_FILENO, out, O_WRONLY | O_CREAT | O_TRUNC);
  redirect(STDERR_FILENO, err, O_WRONLY | O_CREAT | O_TRUNC);
  if (how.output && (::dup2(*how.output, STDOUT_FILENO) < 0 ||
                     ::dup2(*how.output, STDERR_FILENO) < 0))
    ::_exit(126);
  if (!how.folder.empty() && ::chdir(how.folder.c_str()) != 0)
    ::_exit(126);
  if (how.largest_file)
    limit_files(*how.largest_file);
  limit(RLIMIT_NOFILE, how.most_files);
  limit(RLIMIT_AS, how.address_space);
  ::execve(arguments[0], arguments.data(), environment.data());
  ::_exit(127);
}

child::~child() {
  if (pid_ == 0)
    return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

child::child(child&& other) noexcept
  : stem_(std::move(other.stem_)), pid_(std::exchange(other.pid_, 0)),
    status_(other.status_) {
  // nop
}

child& child::operator=(child&& other) noexcept {
  std::swap(stem_, other.stem_);
  std::swap(pid_, other.pid_);
  std::swap(status_, other.status_);
  return *this;
}

bool child::running() {
  int status = 0;
  if (pid_ != 0 && ::waitpid(pid_, &status, WNOHANG) == pid_)
    take_status(status);
  return pid_ != 0;
}

void child::signal(int number) {
  if (pid_ != 0)
    ::kill(pid_, number);
}

void child::may_open(uint64_t most) {
  rlimit limits{};
  if (pid_ == 0)
    return;
  if (::prlimit(pid_, RLIMIT_NOFILE, nullptr, &limits) == 0) {
    limits.rlim_cur = std::min<rlim_t>(most, limits.rlim_max);
    if (::prlimit(pid_, RLIMIT_NOFILE, &limits, nullptr) == 0)
      return;
  }
  throw std::runtime_error("cannot limit the files of a child");
}

double child::core_seconds() const {
  auto text = slurp("/proc/" + std::to_string(pid_) + "/stat");
  // Behind the name, which may hold anything, come the state and 10 numbers.
  std::istringstream rest{text.substr(text.rfind(')') + 1)};
  std::string passed;
  for (int i = 0; i < 11; ++i)
    rest >> passed;
  double user = 0, system = 0;
  rest >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

int child::wait(std::chrono::seconds limit) {
  try {
    eventually(
      "its end", [this] { return !running(); }, limit);
  } catch (const std::runtime_error& err) {
    throw std::runtime_error(report() + err.what());
  }
  return *status_;
}

void child::kill() {
  signal(SIGKILL);
  wait();
}

void child::await(const std::string& pattern, std::chrono::seconds limit) {
  auto over = false;
  try {
    eventually(
      "\"" + pattern + "\"",
      [&] {
        if (over)
          throw std::runtime_error("it ended without \"" + pattern + "\"");
        over = !running();
        return said(pattern);
      },
      limit);
  } catch (const std::runtime_error& err) {
    throw std::runtime_error(report() + err.what());
  }
}

bool child::said(const std::string& pattern) const {
  return std::regex_search(out(), std::regex{pattern});
}

std::string child::out() const {
  return slurp(stem_.string() + ".out");
}

std::string child::err() const {
  return slurp(stem_.string() + ".err");
}

std::string child::report() const {
  auto state =
    status_ ? "ended with " + std::to_string(*status_) : "still running";
  // What went wrong comes first: long reports get shortened at their end.
  return "--- " + stem_.filename().string() + ": " + state + "\n--- stderr\n" +
         end_of(err()) + "--- stdout\n" + end_of(out()) + "---\n";
}

void child::take_status(int status) {
  pid_ = 0;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace troupe::testing
