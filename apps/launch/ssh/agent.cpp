#include "apps/launch/ssh/agent.hpp"

#include "apps/launch/hosts/kept_text.hpp"
#include "apps/launch/hosts/local_host.hpp"
#include "apps/launch/ssh/copies.hpp"
#include "apps/launch/ssh/frames.hpp"
#include "apps/startup/cores.hpp"
#include "apps/startup/stop_signals.hpp"
#include "config/text/one_line.hpp"
#include "config/text/version.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;
using clock = std::chrono::steady_clock;

/// How long processes have to end that were told to since the launch is gone.
constexpr auto patience = std::chrono::seconds(10);

/// A launch says that it lives every few seconds. After so long without a word
/// it is gone, though its connection has not ended.
constexpr auto longest_silence = std::chrono::minutes(2);

/// While so much waits to be sent, nothing more is read from processes.
constexpr size_t most_unsent = size_t{4} << 20;

/// Takes what the folder of the program has put in front of the path of
/// libraries out of it: that is for the program alone, which adds it itself.
void restore_library_path(const fs::path& folder) {
  const auto* now = std::getenv("LD_LIBRARY_PATH");
  auto own = (folder / "lib").string();
  if (now == nullptr || !std::string_view{now}.starts_with(own))
    return;
  std::string rest{now + own.size()};
  if (rest.empty())
    unsetenv("LD_LIBRARY_PATH");
  else
    setenv("LD_LIBRARY_PATH", rest.substr(1).c_str(), 1);
}

class agent {
public:
  explicit agent(fs::path folder) : folder_(std::move(folder)) {
    auto wanted = stop_signals();
    sigaddset(&wanted, SIGCHLD);
    sigprocmask(SIG_BLOCK, &wanted, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    signals_ =
      config::descriptor{signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK)};
    restore_library_path(folder_);
  }

  exit_status run() {
    while (!ending_ || !all_.empty()) {
      wait();
      if (!ending_)
        take_frames();
      look_at_processes();
      here_.look({});
      if (!ending_ && (stream_.is_cut() || is_told_to_stop() || is_alone()))
        begin_end(false);
      if (ending_ && clock::now() > deadline_)
        signal_all(SIGKILL);
    }
    all_.clear();
    here_.finish_end();
    stream_.flush();
    return exit_status::done;
  }

private:
  struct running {
    std::unique_ptr<process> own;
    std::string shown{}; ///< The live line that was sent last.
  };

  void wait() {
    std::vector<pollfd> files{{signals_.get(), POLLIN, 0}};
    if (!stream_.is_cut()) {
      files.push_back({STDIN_FILENO, POLLIN, 0});
      if (stream_.unsent() > 0)
        files.push_back({STDOUT_FILENO, POLLOUT, 0});
    }
    std::vector<int> outputs;
    if (has_room())
      here_.list_files(outputs);
    for (auto one : outputs)
      files.push_back({one, POLLIN, 0});
    constexpr int between_looks = 200; // ms
    poll(files.data(), files.size(), between_looks);
    stream_.flush();
  }

  /// Whether more may be sent. Whoever does not listen any more is not waited
  /// for.
  bool has_room() const {
    return ending_ || stream_.is_cut() || stream_.unsent() < most_unsent;
  }

  bool is_told_to_stop() {
    signalfd_siginfo one{};
    auto out = false;
    while (read(signals_.get(), &one, sizeof one) == sizeof one)
      out = out || one.ssi_signo != SIGCHLD;
    return out;
  }

  bool is_alone() const { return clock::now() > heard_ + longest_silence; }

  void take_frames() try {
    stream_.read();
    while (auto one = stream_.take()) {
      heard_ = clock::now();
      take_frame(*one);
    }
  } catch (const std::exception& why) {
    stream_.put({.kind = frame_kind::failed, .text = one_line(why)});
  }

  void take_frame(frame& one) {
    switch (one.kind) {
    case frame_kind::begin:
      return begin(one);
    case frame_kind::secrets:
      for (const auto& [name, text] : one.table)
        names_[name] = texts_.keep(text);
      return;
    case frame_kind::file:
      return take_file(one);
    case frame_kind::files_told:
      told_ = true;
      return say_copied();
    case frame_kind::file_bytes:
      copies_.add(one.process, one.text, one.number == 1);
      return say_copied();
    case frame_kind::find_port:
      return stream_.put(
        {.kind = frame_kind::port, .number = here_.find_port(one.text)});
    case frame_kind::make_folder:
      return stream_.put({.kind = frame_kind::folder,
                          .text = here_.make_folder(one.text).string()});
    case frame_kind::run:
      runs_[one.process] = {one.text, one.number != 0, {}};
      if (!one.words.empty())
        runs_[one.process].life_before = one.words.front();
      return;
    case frame_kind::start:
      return start(one);
    case frame_kind::signal:
      if (auto at = all_.find(one.process); at != all_.end())
        at->second.own->signal(static_cast<int>(one.number));
      return;
    case frame_kind::kill_rest:
      if (auto rest = ended_.extract(one.process))
        rest.mapped()->kill_rest();
      return;
    case frame_kind::end:
      return begin_end(one.number == 1);
    default:
      return;
    }
  }

  void begin(const frame& one) {
    names_[one.words.at(1)] = (folder_ / "trainer_node").string();
    auto folder = copied_files::enter(one.words.at(0));
    auto cpus = find_cpus();
    auto cores = std::min(cpus.cores, cpus.allowed);
    if (cpus.quota)
      cores =
        std::min(cores, static_cast<uint32_t>(std::max(1.0, *cpus.quota)));
    stream_.put({.kind = frame_kind::ready,
                 .number = launch_protocol,
                 .text = std::string{config::version()},
                 .words = {std::to_string(cores), folder.string()}});
  }

  void take_file(const frame& one) {
    copied_file file{{}, one.text, one.words.at(1)};
    file.size = std::stoull(one.words.at(2));
    file.mode = static_cast<uint32_t>(std::stoul(one.words.at(3)));
    if (one.words.at(0) != one.text) // Else it is found by the same name.
      names_[one.words.at(0)] = fs::absolute(one.text).string();
    if (copies_.wants(file))
      stream_.put(
        {.kind = frame_kind::wanted, .number = static_cast<int64_t>(files_)});
    ++files_;
  }

  void say_copied() {
    if (told_ && copies_.complete())
      stream_.put({.kind = frame_kind::copied});
  }

  /// The text as it is meant on this host.
  std::string name_here(const std::string& text) const {
    auto at = names_.find(text);
    return at == names_.end() ? text : at->second;
  }

  void start(frame& one) {
    for (auto& word : one.words)
      word = name_here(word);
    for (auto& [variable, value] : one.table)
      value = name_here(value);
    child_plan plan{one.text, one.words, one.table};
    if (auto run = runs_.extract(one.process))
      plan.run = run.mapped();
    if (plan.run && plan.run->life_before)
      here_.set_life_before(plan.name, *plan.run->life_before);
    try {
      all_[one.process] = {here_.start(plan, static_cast<size_t>(one.number))};
      if (plan.run)
        stream_.put(
          {.kind = frame_kind::life, .text = here_.life_before(plan.name)});
    } catch (const failure& why) {
      stream_.put({.kind = frame_kind::line,
                   .process = one.process,
                   .text = "trainer_node: " + one_line(why)});
      stream_.put({.kind = frame_kind::ended,
                   .process = one.process,
                   .number = static_cast<int>(why.status())});
    }
  }

  void look_at_processes() {
    for (auto at = all_.begin(); at != all_.end();) {
      auto has_ended = look_at(at->first, at->second);
      if (has_ended)
        ended_[at->first] = std::move(at->second.own);
      at = has_ended ? all_.erase(at) : std::next(at);
    }
  }

  /// Returns whether it has ended.
  bool look_at(uint64_t number, running& one) {
    if (!has_room())
      return false;
    auto pass_on = [&](const std::string& line) {
      stream_.put({.kind = frame_kind::line, .process = number, .text = line});
    };
    one.own->read(pass_on);
    if (auto live = one.own->live(); live != one.shown) {
      one.shown = live;
      stream_.put({.kind = frame_kind::live, .process = number, .text = live});
    }
    auto status = one.own->ended();
    if (!status)
      return false;
    one.own->read(pass_on);
    stream_.put(
      {.kind = frame_kind::ended, .process = number, .number = *status});
    return true;
  }

  void signal_all(int number) {
    for (auto& [id, one] : all_)
      one.own->signal(number);
  }

  void begin_end(bool at_once) {
    ending_ = true;
    deadline_ = clock::now() + (at_once ? clock::duration::zero() : patience);
    signal_all(at_once ? SIGKILL : SIGTERM);
    if (at_once)
      here_.end_at_once();
  }

  fs::path folder_;
  config::descriptor signals_;
  local_host here_;
  frame_stream stream_{STDIN_FILENO, STDOUT_FILENO};
  kept_text texts_;
  copied_files copies_;
  uint64_t files_ = 0;
  bool told_ = false; ///< Of all files.
  /// What the launch calls a file, and how that is called here.
  std::map<std::string, std::string> names_;
  std::map<uint64_t, continued_run> runs_; ///< Of processes to be started.
  std::map<uint64_t, running> all_;
  std::map<uint64_t, std::unique_ptr<process>> ended_; ///< But not their rest.
  clock::time_point heard_ = clock::now();
  bool ending_ = false;
  clock::time_point deadline_;
};

} // namespace

exit_status run_launch_agent(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1)
    throw usage_error("launch-agent is started by trainer_node launch --hosts "
                      "on each host, and is not for users");
  return agent{arguments.front()}.run();
}

} // namespace troupe::app
