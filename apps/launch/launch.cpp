#include "apps/launch/launch.hpp"

#include "actors/recording/log_lines.hpp"
#include "actors/recording/progress.hpp"
#include "actors/user_process/python_stacks.hpp"
#include "apps/launch/failure_report.hpp"
#include "apps/launch/launch_plan.hpp"
#include "apps/launch/node_lines.hpp"
#include "apps/launch/orphans.hpp"
#include "apps/startup/cores.hpp"
#include "apps/startup/resources.hpp"
#include "apps/startup/stop_signals.hpp"
#include "config/run_folder/train_dir.hpp"
#include "config/sources/next_life_settings.hpp"
#include "config/text/text.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <list>
#include <string_view>
#include <thread>
#include <utility>

namespace troupe::app {

namespace {

using clock = std::chrono::steady_clock;

constexpr auto between_looks = std::chrono::milliseconds(200);

/// How long the other processes have to end after the server has ended, and
/// again after they were told to end; also how long the server has after all
/// workers have ended.
constexpr auto patience = std::chrono::seconds(15);

/// The same after a server has failed: the others wait for it in vain.
constexpr auto for_last_words = std::chrono::seconds(2);

/// The same for processes that all of these have left behind.
constexpr auto patience_with_orphans = std::chrono::seconds(1);

/// A node ends with such lines when it fails: at most three.
constexpr std::string_view last_word = "trainer_node: ";

/// A node that has found its server says so with such a line.
constexpr std::string_view first_word = "connected ";

/// The last life in a run's directory, which differs for each; empty if it has
/// none.
std::string life_in(const std::filesystem::path& folder) {
  std::string out;
  std::getline(std::ifstream{folder / "lives"}, out);
  return out;
}

/// Whether the last life of the run has written a checkpoint.
bool has_checkpoint_since_life(const std::filesystem::path& folder) {
  std::error_code none;
  auto begun = last_write_time(folder / "lives", none);
  auto all = std::filesystem::directory_iterator{folder / "checkpoints", none};
  return std::any_of(
    begin(all), end(all), [&](const std::filesystem::directory_entry& one) {
      return one.path().filename().string().starts_with("step-") &&
             one.last_write_time(none) >= begun;
    });
}

/// The signals as something that can be read.
class signals {
public:
  signals() {
    auto wanted = stop_signals();
    sigaddset(&wanted, SIGCHLD);
    sigprocmask(SIG_BLOCK, &wanted, nullptr);
    file_ =
      transport::descriptor{signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK)};
  }

  int file() const { return file_.get(); }

  /// Those that asked this process to stop since the last call.
  std::vector<stop_requests::meaning> taken() {
    std::vector<stop_requests::meaning> out;
    signalfd_siginfo one{};
    while (read(file_.get(), &one, sizeof one) == sizeof one)
      if (one.ssi_signo != SIGCHLD)
        out.push_back(asked_.interpret_signal(static_cast<int>(one.ssi_signo),
                                              clock::now()));
    return out;
  }

private:
  transport::descriptor file_;
  stop_requests asked_;
};

class launcher {
public:
  explicit launcher(const launch_plan& plan) : plan_(plan) {
    if (!plan_.logs.empty())
      std::filesystem::create_directories(plan_.logs);
    for (const auto& one : plan_.servers)
      all_.emplace_back(one, true);
    for (const auto& one : plan_.others)
      all_.emplace_back(one, false);
    for (auto& one : all_)
      start(one);
  }

  exit_status run() {
    auto how = run_all();
    end_orphans();
    return how;
  }

private:
  exit_status run_all() {
    while (!over()) {
      wait();
      for (auto& one : all_)
        look_at(one);
      show_live();
      reap_orphans([this](pid_t pid) { return is_ours(pid); });
      for (auto what : signals_.taken())
        stop(what);
      if (!lead_status_ && nobody_works())
        give_up();
      if (lead_status_)
        end_those_late();
      if (lead_status_ && clock::now() > deadline_)
        end_those_left();
    }
    auto out = status();
    say_who_failed(out);
    if (out == exit_status::failed || out == exit_status::usage)
      say_why();
    return out;
  }

  struct node {
    child_plan plan;
    bool is_server;
    std::optional<child> process{};
    uint32_t starts = 0;
    bool done = false; ///< It has ended, and is not started again.
    bool failed = false;
    bool connected = false; ///< Since its last start, if it runs a node.
    bool told_late = false; ///< To end, since it has not found the server.
    std::vector<std::string> last_words{}; ///< Of its last start.
    line_tail tail{};                      ///< Of its last start.
  };

  exit_status status() const {
    if (refused_)
      return exit_status::usage;
    if (gave_up_ && a_worker_failed() && lead_status_ == 75)
      return exit_status::failed; // Because of them the lead was stopped.
    if (lead_status_ == 0 || lead_status_ == 75 || lead_status_ == 2)
      return static_cast<exit_status>(*lead_status_);
    return exit_status::failed;
  }

  void pass_on(node& who, const std::string& shown) {
    auto line = recording::line_in(shown).value_or(shown);
    who.tail.add(line);
    if (who.is_server && line.starts_with(last_word))
      who.last_words.push_back(shown);
    who.connected = who.connected || line.starts_with(first_word);
    print_line(who, shown);
  }

  /// Says something about a process.
  void say(const node& who, const std::string& line) {
    auto pid = who.process->pid();
    print_line(who, who.plan.as_json ? json_line_of(who.plan.name, pid, line)
                                     : line);
  }

  void print_line(const node& who, const std::string& shown) {
    erase_live();
    auto before = who.plan.as_json ? std::string{} : prefix_of(who);
    std::printf("%s%s\n", before.c_str(), shown.c_str());
    std::fflush(stdout);
  }

  void say_who_failed(exit_status how) {
    for (const auto& [name, line] :
         failures_.remarks(how == exit_status::failed)) {
      auto who = std::ranges::find(
        all_, name, [](const node& one) { return one.plan.name; });
      say(*who, line);
    }
  }

  /// Prints why the servers failed, below what the others have said meanwhile.
  void say_why() {
    erase_live();
    for (const auto& line : why_)
      std::fprintf(stderr, "%s\n", line.c_str());
  }

  static std::string prefix_of(const node& who) {
    return "[" + who.plan.name + "] ";
  }

  /// Draws the line of the lead's progress, on a terminal, below all others.
  void show_live() {
    const auto& lead = all_.front();
    auto live = lead.process->live();
    if (live.empty() || live == shown_)
      return;
    erase_live();
    std::printf("%s%s", prefix_of(lead).c_str(), live.c_str());
    std::fflush(stdout);
    shown_ = live;
  }

  void erase_live() {
    if (!std::exchange(shown_, {}).empty())
      std::printf("%s", std::string{recording::erase_line}.c_str());
  }

  void start(node& one) {
    auto plan = one.plan;
    auto is_lead = &one == &all_.front();
    if (is_lead && one.starts == 0)
      before_ = life_in(plan_.train_dir);
    else if (is_lead && goes_on())
      plan.environment[config::restart_variable] = plan_.train_dir.string();
    if (one.is_server && !failures_.path().empty())
      plan.environment[recording::failures_variable] = failures_.path();
    auto log =
      plan_.logs.empty() ? plan_.logs : plan_.logs / (plan.name + ".log");
    // Behind the prefix a narrow terminal has no room for a line of progress.
    auto columns = terminal_width();
    auto before = prefix_of(one).size();
    auto draws = is_lead && columns > 2 * before && !plan.as_json;
    one.process.emplace(plan, log, draws ? columns - before : 0);
    ++one.starts;
    one.connected = false;
    one.last_words.clear();
    one.tail = {};
  }

  /// Whether a server that is started again goes on with its own run. It does
  /// not if it died before it had one, or if the run is still that which it was
  /// told to take over or to remove.
  bool goes_on() const {
    auto life = life_in(plan_.train_dir);
    return !life.empty() && life != before_ &&
           (!plan_.begins_with_another ||
            has_checkpoint_since_life(plan_.train_dir));
  }

  bool is_ours(pid_t pid) const {
    return std::ranges::any_of(all_, [pid](const node& one) {
      return one.process && one.process->pid() == pid;
    });
  }

  bool over() const { return std::ranges::all_of(all_, &node::done); }

  static bool is_worker(const node& one) {
    return one.plan.name.starts_with("worker");
  }

  bool nobody_works() const {
    return std::ranges::all_of(
      all_, [](const node& one) { return !is_worker(one) || one.done; });
  }

  bool a_worker_failed() const {
    return std::ranges::any_of(
      all_, [](const node& one) { return is_worker(one) && one.failed; });
  }

  /// Waits until somebody prints something or ends, or a signal comes.
  void wait() {
    std::vector<pollfd> files{{signals_.file(), POLLIN, 0}};
    for (const auto& one : all_)
      if (!one.done && one.process->output() >= 0)
        files.push_back({one.process->output(), POLLIN, 0});
    poll(files.data(), files.size(), static_cast<int>(between_looks.count()));
  }

  void look_at(node& one) {
    if (one.done)
      return;
    if (one.process->output() >= 0)
      one.process->read([&](const std::string& line) { pass_on(one, line); });
    auto status = one.process->ended();
    if (!status)
      return;
    if (one.process->output() >= 0)
      one.process->read([&](const std::string& line) { pass_on(one, line); });
    has_ended(one, *status);
  }

  void has_ended(node& one, int status) {
    auto in_order = status == 0 || status == 2 || status == 75;
    auto again = !in_order && !stopping_ && !gave_up_ && !lead_status_ &&
                 one.starts <= plan_.restarts;
    auto failed = !in_order || (status == 2 && !one.is_server);
    note_end(one, status, failed);
    if (!told_ && failed)
      say(one, "ended with status " + std::to_string(status) +
                 (again ? ": is started again" : ""));
    if (again) {
      one.process->kill_rest(); // It may have ports, or a device.
      return start(one);
    }
    one.done = true;
    one.failed = status != 0;
    if (one.is_server && status != 0 && status != 75 && !lead_status_)
      server_failed(one, status);
    if (&one == &all_.front()) {
      lead_status_ = status;
      deadline_ = clock::now() + patience_after(one, status);
    }
  }

  /// What ends because it was told to has not failed; after a lead has failed,
  /// everything ends because of that. A server that refuses its settings has
  /// said so, and nothing has begun.
  void note_end(const node& one, int status, bool failed) {
    auto told = told_ || one.told_late;
    auto lead_failed =
      lead_status_ && *lead_status_ != 0 && *lead_status_ != 75;
    if (stopping_ || refused_ || lead_status_ == 2 ||
        (!lead_failed && (told || !failed)))
      return;
    failures_.note({one.plan.name, one.process->pid(), status, one.tail.lines(),
                    lead_failed && failures_.any()});
  }

  /// A lead that ends without an error line has told the others to end.
  static clock::duration patience_after(const node& lead, int status) {
    if (status == 0 || (status == 75 && lead.last_words.empty()))
      return patience;
    return status == 2 ? clock::duration::zero() : for_last_words;
  }

  /// Keeps the reason. A shard that refuses its settings ends the run: the lead
  /// is stopped, since it would wait for that shard.
  void server_failed(node& one, int status) {
    if (why_.empty())
      why_ = one.last_words;
    if (status != 2 || refused_)
      return;
    refused_ = true;
    if (&one != &all_.front() && !all_.front().done)
      all_.front().process->signal(SIGTERM);
  }

  void stop(stop_requests::meaning request) {
    if (request == stop_requests::meaning::haste) {
      for (auto& one : all_)
        if (!one.done)
          one.process->signal(SIGKILL);
      kill_orphans(SIGKILL);
      std::_Exit(static_cast<int>(exit_status::interrupted));
    }
    if (std::exchange(stopping_, true))
      return;
    if (!all_.front().done)
      all_.front().process->signal(SIGTERM);
  }

  /// Stops the server when all workers have ended, since it would wait for new
  /// ones. If the run is over, the server is about to end anyway and ignores
  /// this.
  void give_up() {
    if (stopping_ || gave_up_)
      return;
    if (!alone_since_)
      alone_since_ = clock::now();
    if (!a_worker_failed() && clock::now() < *alone_since_ + patience)
      return;
    say(all_.front(), "is told to stop: all workers have ended");
    gave_up_ = true;
    all_.front().process->signal(SIGTERM);
  }

  /// A node that has not found the server has nothing to finish, and would look
  /// for it as long as `connect-timeout`. A command of the user's may work on.
  void end_those_late() {
    for (auto& one : all_)
      if (!one.done && runs_a_node(one) && !one.connected && !one.told_late) {
        one.told_late = true;
        one.process->signal(SIGTERM);
      }
  }

  bool runs_a_node(const node& one) const {
    return one.plan.command.front() == all_.front().plan.command.front();
  }

  /// Tells those that are left to end; kills them if they were told before.
  void end_those_left() {
    for (auto& one : all_)
      if (!one.done) {
        if (plan_.dumps_stacks && !told_)
          take_stacks_of(one);
        one.process->signal(told_ ? SIGKILL : SIGTERM);
      }
    told_ = true;
    deadline_ = clock::now() + patience;
  }

  /// Has a program that hangs write its stacks to its log.
  void take_stacks_of(node& one) {
    external::stacks_of(one.process->pid());
    look_at(one);
  }

  /// Tells orphans to end, then kills those that are left, and what these
  /// leave.
  void end_orphans() {
    auto end = clock::now() + patience_with_orphans;
    kill_orphans(SIGTERM);
    while (has_orphans() && clock::now() < end + patience_with_orphans) {
      if (clock::now() > end)
        kill_orphans(SIGKILL);
      reap_orphans([](pid_t) { return false; });
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  const launch_plan& plan_;
  failure_report failures_;
  signals signals_;
  std::string before_; ///< The life that the train-dir had before.
  std::list<node> all_;
  std::optional<int> lead_status_; ///< Once the lead has ended for good.
  clock::time_point deadline_;
  std::optional<clock::time_point> alone_since_; ///< The server has no worker.
  bool stopping_ = false;
  bool gave_up_ = false;
  bool told_ = false;
  bool refused_ = false;         ///< A server has ended with status 2.
  std::vector<std::string> why_; ///< The lines of the server that failed first.
  std::string shown_; ///< The line that is drawn on the terminal now.
};

} // namespace

exit_status launch(const std::vector<std::string>& arguments) {
  launch_facts facts;
  run_secrets secrets;
  facts.secrets = &secrets;
  facts.program = std::filesystem::read_symlink("/proc/self/exe");
  facts.cores = std::max(1u, std::thread::hardware_concurrency());
  facts.variables = config::process_environment();
  facts.make_folder = [](const std::string& network) {
    return config::make_run_folder(network);
  };
  facts.free_port = [] {
    return find_free_port("127.0.0.1");
  };
  std::string help;
  auto plan = plan_launch(arguments, facts, help);
  if (!plan) {
    std::cout << help;
    return exit_status::done;
  }
  if (plan->servers.front().as_json)
    recording::log_lines::of_process().use_json(
      recording::origin_of_process("launch", {}));
  adopt_orphans();
  return launcher{*plan}.run();
}

} // namespace troupe::app
