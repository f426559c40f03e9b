#include "apps/launch/ssh/ssh_link.hpp"

#include "apps/launch/hosts/spawn.hpp"
#include "apps/launch/ssh/parcel.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

namespace troupe::app {

namespace {

constexpr size_t most_complaints = 20;
constexpr size_t longest_complaint = 500;

} // namespace

ssh_link::ssh_link(const std::vector<std::string>& command) {
  auto to = make_pipe();
  auto from = make_pipe();
  auto errors = make_pipe();
  if (to.ours.get() < 0 || from.ours.get() < 0 || errors.ours.get() < 0)
    throw run_error("no more files can be opened for ssh; raise the limit with "
                    "ulimit -n");
  program_start start{"ssh", command};
  start.input = to.ours.get(); // The end of a pipe that is read.
  start.output = from.theirs.get();
  start.errors = errors.theirs.get();
  pid_ = start_program(std::move(start));
  input_ = std::move(to.theirs);
  output_ = std::move(from.ours);
  errors_ = std::move(errors.ours);
  fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
  stream_.emplace(output_.get(), input_.get());
}

ssh_link::~ssh_link() {
  if (ended())
    return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void ssh_link::list_files(std::vector<int>& out) const {
  if (!stream_->is_cut())
    out.push_back(output_.get());
  if (errors_)
    out.push_back(errors_.get());
}

std::vector<std::string> ssh_link::read() {
  stream_->flush();
  stream_->read();
  return read_errors();
}

std::vector<std::string> ssh_link::read_errors() {
  std::array<char, 4096> some{};
  while (errors_) {
    auto got = ::read(errors_.get(), some.data(), some.size());
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && errno == EAGAIN)
      break;
    if (got <= 0) {
      errors_ = {};
      if (!rest_.empty())
        rest_ += '\n';
      break;
    }
    rest_.append(some.data(), static_cast<size_t>(got));
  }
  std::vector<std::string> out;
  for (auto end = rest_.find('\n'); end != std::string::npos;
       end = rest_.find('\n')) {
    std::string line{config::trim(rest_.substr(0, end))};
    rest_.erase(0, end + 1);
    std::erase_if(
      line, [](char c) { return std::iscntrl(static_cast<unsigned char>(c)); });
    if (line.empty())
      continue;
    line.resize(std::min(line.size(), longest_complaint));
    complaints_.push_back(line);
    if (complaints_.size() > most_complaints)
      complaints_.pop_front();
    out.push_back(std::move(line));
  }
  return out;
}

std::optional<int> ssh_link::ended() {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_)
    status_ = exit_status_of(status);
  return status_;
}

void ssh_link::close_input() {
  stream_->stop_sending();
  input_ = {};
}

std::string ssh_with_options(const std::string& ssh) {
  return ssh +
         " -T -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15 "
         "-o ServerAliveCountMax=3";
}

std::vector<std::string> ssh_command(const std::string& ssh,
                                     const std::string& login,
                                     const std::string& command) {
  return {"/bin/sh", "-c",  "exec " + ssh_with_options(ssh) + " \"$@\"",
          "ssh",     login, command};
}

std::string explain_ssh(const std::deque<std::string>& complaints, int status,
                        const std::string& login) {
  auto said = [&](std::string_view part) -> const std::string* {
    auto at = std::find_if(complaints.rbegin(), complaints.rend(),
                           [&](const std::string& line) {
                             return line.find(part) != std::string::npos;
                           });
    return at == complaints.rend() ? nullptr : &*at;
  };
  struct known {
    std::string_view part;
    std::string remedy;
  };
  const known all[] = {
    {"No space left on device", make_room},
    {"Disk quota exceeded", make_room},
    {"error in file IO", make_room}, // Of rsync, which may not tell which.
    {"Permission denied (",
     "give ssh a key that is accepted there (ssh-copy-id " + login +
       ", ssh-add)"},
    {"Too many authentication failures",
     "name the right key for that host in ~/.ssh/config"},
    {"Host key verification failed",
     "log in once by hand (ssh " + login +
       "), or correct the host's line in known_hosts"},
    {"Could not resolve hostname", "correct the name, or add it to the DNS"},
    {"Connection refused", "see that sshd runs there"},
    {"timed out", "see that the host is up and lets ssh through"},
    {"No route to host", "see that the host is up and lets ssh through"},
    {"Network is unreachable", "see that the host is up and lets ssh through"},
    {"Exec format error",
     "the program is for another kind of processor: take hosts that are alike"},
    {"GLIBC", "its system is older than this one: build Troupe there, or take "
              "hosts that are alike"},
    {"error while loading shared libraries", "install what is missing there"},
    {"not found", "install it, or name another command with --ssh"},
  };
  for (const auto& one : all)
    if (const auto* line = said(one.part))
      return *line + ": " + one.remedy;
  auto last = complaints.empty() ? std::string{} : ": " + complaints.back();
  return "ssh has ended with status " + std::to_string(status) + last +
         (complaints.empty() ? "; try: ssh " + login : "");
}

} // namespace troupe::app
