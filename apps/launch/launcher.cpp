#include "apps/launch/launcher.hpp"

#include "actors/recording/log_lines.hpp"
#include "actors/user_process/python_stacks.hpp"
#include "apps/launch/failure_report.hpp"
#include "apps/launch/launch_output.hpp"
#include "apps/launch/node_lines.hpp"
#include "apps/launch/signal_file.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <list>
#include <string_view>
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

/// A node ends with such lines when it fails: at most three.
constexpr std::string_view last_word = "trainer_node: ";

/// A node that has found its server says so with such a line.
constexpr std::string_view first_word = "connected ";

/// A program that ends with this status is not to be started again.
constexpr int final_status = 64;

/// A node that listens says where with such a line.
constexpr std::string_view word_of_port = "listening    on ";

class launcher {
public:
  launcher(const launch_plan& plan, const hosts& where)
    : plan_(plan), hosts_(where) {
    if (!plan_.logs.empty())
      std::filesystem::create_directories(plan_.logs);
    for (const auto& one : plan_.servers)
      all_.emplace_back(one, true);
    for (const auto& one : plan_.others)
      all_.emplace_back(one, false);
    lead_ = &all_.front();
    for (auto& one : all_)
      start(one);
  }

  exit_status run() {
    auto how = run_all();
    for (const auto& one : hosts_)
      one->begin_end();
    for (const auto& one : hosts_)
      one->finish_end();
    return how;
  }

private:
  exit_status run_all() {
    while (!over()) {
      wait();
      for (auto& one : all_)
        look_at(one);
      for (const auto& one : hosts_)
        one->look([this](const std::string& line) { output_.say(line); });
      if (auto live = lead_->running->live(); !live.empty())
        output_.draw(lead_->plan, live, states());
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
      output_.complain(why_);
    return out;
  }

  struct node {
    child_plan plan;
    bool is_server;
    std::unique_ptr<process> running{};
    std::shared_ptr<FILE> log{}; ///< Of what it prints; may be null.
    uint32_t starts = 0;
    uint32_t fruitless = 0;   ///< Starts before this one, in a row.
    bool contributes = false; ///< In this start the weights got a gradient.
    uint32_t since = 0;    ///< How many starts there were before its last one.
    std::string listens{}; ///< Where it does, since its last start.
    bool done = false;     ///< It has ended, and is not started again.
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
    if (plan_.of_peers && was_stopped_ && lead_status_ == 0)
      return exit_status::try_again; // Another peer has led by then.
    if (lead_status_ == 0 || lead_status_ == 75 || lead_status_ == 2)
      return static_cast<exit_status>(*lead_status_);
    return exit_status::failed;
  }

  /// Prints a line of a process. Some are for the launch and not for its user.
  void pass_on(node& who, const std::string& shown) {
    auto line = recording::line_in(shown).value_or(shown);
    if (who.is_server && line.starts_with(config::first_gradient))
      return note_progress(line.substr(config::first_gradient.size()));
    if (who.log) {
      std::fprintf(who.log.get(), "%s\n", shown.c_str());
      std::fflush(who.log.get());
    }
    who.tail.add(line);
    if (who.is_server && line.starts_with(last_word))
      who.last_words.push_back(shown);
    who.connected = who.connected || line.starts_with(first_word);
    if (who.is_server && line.starts_with(word_of_port))
      who.listens = line.substr(word_of_port.size());
    output_.say(who.plan, shown);
  }

  /// A gradient of this worker, and so of the servers' run, is in the weights.
  void note_progress(const std::string& rank) {
    for (auto& one : all_)
      if (one.is_server || one.plan.name == "worker-" + rank)
        one.contributes = true;
  }

  /// Whether it makes no sense to start it once more: it has died again and
  /// again before anything was learned. An evaluator has no gradients, and of
  /// peers nobody says whose they were.
  bool is_fruitless(const node& one) const {
    return plan_.no_progress_limit > 0 && !plan_.of_peers &&
           (one.is_server || is_worker(one)) && !one.contributes &&
           one.fruitless >= plan_.no_progress_limit;
  }

  std::vector<node_state> states() const {
    std::vector<node_state> out;
    for (const auto& one : all_)
      out.push_back(
        {one.plan.name, hosts_.at(one.plan.host)->name(), trouble_of(one)});
    return out;
  }

  std::string trouble_of(const node& one) const {
    if (one.done)
      return "has ended";
    if (one.is_server || one.connected || !runs_a_node(one))
      return {};
    return one.starts > 1 ? "starts again" : "starts";
  }

  /// Says something about a process.
  void say(const node& who, const std::string& line) {
    output_.say(who.plan, in_form(who.plan, origin_of(who), line));
  }

  recording::log_origin origin_of(const node& who) const {
    return app::origin_of(who.plan.name, who.running ? who.running->pid() : 0,
                          hosts_.at(who.plan.host)->name());
  }

  bool is_here(const node& who) const {
    return hosts_.at(who.plan.host)->name().empty();
  }

  void say_who_failed(exit_status how) {
    for (const auto& [name, line] :
         failures_.remarks(how == exit_status::failed)) {
      auto who = std::ranges::find(
        all_, name, [](const node& one) { return one.plan.name; });
      say(*who, line);
    }
  }

  void start(node& one) {
    auto plan = one.plan;
    if (one.starts > 0 && plan_.of_peers && one.is_server)
      plan.command = command_to_join(plan.command, lead_->listens);
    if (one.is_server && is_here(one) && !failures_.path().empty())
      plan.environment[recording::failures_variable] = failures_.path();
    if (!plan_.logs.empty() && !one.log)
      one.log = open_log(plan_.logs / (plan.name + ".log"));
    auto columns = &one == lead_ ? launch_output::columns_for(plan) : 0;
    one.running = hosts_.at(plan.host)->start(plan, columns);
    one.fruitless = one.starts > 0 && !one.contributes ? one.fruitless + 1 : 0;
    one.contributes = false;
    ++one.starts;
    one.since = starts_++;
    one.listens.clear();
    one.connected = false;
    one.last_words.clear();
    one.tail = {};
  }

  static std::shared_ptr<FILE> open_log(const std::filesystem::path& file) {
    auto* out = std::fopen(file.c_str(), "ae");
    if (out == nullptr)
      throw run_error(transport::system_error(file.string()).what());
    return {out, std::fclose};
  }

  bool over() const { return std::ranges::all_of(all_, &node::done); }

  bool is_worker(const node& one) const {
    return plan_.of_peers ? one.is_server : one.plan.name.starts_with("worker");
  }

  bool nobody_works() const {
    return std::ranges::all_of(
      all_, [this](const node& one) { return !is_worker(one) || one.done; });
  }

  bool a_worker_failed() const {
    return std::ranges::any_of(
      all_, [this](const node& one) { return is_worker(one) && one.failed; });
  }

  /// Waits until somebody prints something or ends, or a signal comes.
  void wait() {
    std::vector<int> readable;
    for (const auto& one : hosts_)
      one->list_files(readable);
    std::vector<pollfd> files{{signals_.file(), POLLIN, 0}};
    for (auto one : readable)
      files.push_back({one, POLLIN, 0});
    poll(files.data(), files.size(), static_cast<int>(between_looks.count()));
  }

  void look_at(node& one) {
    if (one.done)
      return;
    read_from(one);
    auto status = one.running->ended();
    if (!status)
      return;
    read_from(one);
    has_ended(one, *status);
  }

  void read_from(node& one) {
    one.running->read([&](const std::string& line) {
      pass_on(one, in_form(one.plan, origin_of(one), line));
    });
  }

  void has_ended(node& one, int status) {
    auto in_order = status == 0 || status == 2 || status == 75;
    auto again = !in_order && status != final_status && !stopping_ &&
                 !gave_up_ && !lead_status_ && one.starts <= plan_.restarts &&
                 can_join(one);
    was_stopped_ = was_stopped_ || (one.is_server && status == 75);
    auto then = then_of(one, status, again);
    again = again && !is_fruitless(one);
    auto failed = !in_order || (status == 2 && !one.is_server);
    note_end(one, status, failed);
    if (!told_ && failed)
      say(one, "ended with status " + std::to_string(status) + then);
    if (again) {
      one.running->kill_rest(); // It may have ports, or a device.
      if (&one == lead_ && plan_.of_peers)
        lead_ = next_lead(one);
      return start(one);
    }
    one.done = true;
    one.failed = status != 0;
    if (plan_.of_peers && &one == lead_ && !in_order && next_lead(one))
      lead_ = next_lead(one);
    if (one.is_server && status != 0 && status != 75 && !lead_status_)
      server_failed(one, status);
    if (&one == lead_) {
      lead_status_ = status;
      deadline_ = clock::now() + patience_after(one, status);
      if (end_by_)
        deadline_ = std::min(deadline_,
                             std::max(*end_by_, clock::now() + for_last_words));
    }
  }

  /// What follows from its end, for the user.
  std::string then_of(const node& one, int status, bool again) const {
    if (again && is_fruitless(one))
      return ": is not started again, since its last " +
             std::to_string(one.fruitless + 1) +
             " starts brought no gradient into the weights "
             "(--no-progress-limit)";
    if (again)
      return ": is started again";
    return status == final_status && plan_.restarts > 0
             ? ": asks not to be started again"
             : "";
  }

  /// What ends because it was told to has not failed; after a lead has failed,
  /// everything ends because of that. A server that refuses its settings has
  /// said so, and nothing has begun.
  void note_end(const node& one, int status, bool failed) {
    auto told = told_ || one.told_late || (gave_up_ && one.is_server);
    auto lead_failed =
      lead_status_ && *lead_status_ != 0 && *lead_status_ != 75;
    if (stopping_ || refused_ || lead_status_ == 2 ||
        (!lead_failed && (told || !failed)))
      return;
    failures_.note({one.plan.name, origin_of(one), status, one.tail.lines(),
                    lead_failed && failures_.any()});
  }

  /// Who leads the peers that are left when one has died: that which has been
  /// there for longest. Null if there is none.
  node* next_lead(const node& died) {
    node* out = nullptr;
    for (auto& one : all_)
      if (one.is_server && !one.done && &one != &died &&
          (out == nullptr || one.since < out->since))
        out = &one;
    return out;
  }

  /// A peer that is started again joins those that have gone on without it.
  bool can_join(const node& one) {
    return !plan_.of_peers || !one.is_server || next_lead(one) != nullptr;
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
    if (&one != lead_ && !lead_->done)
      lead_->running->signal(SIGTERM);
  }

  void stop(stop_requests::meaning request) {
    if (request == stop_requests::meaning::haste) {
      for (auto& one : all_)
        if (!one.done)
          one.running->signal(SIGKILL);
      for (const auto& one : hosts_)
        one->end_at_once();
      std::_Exit(static_cast<int>(exit_status::interrupted));
    }
    if (std::exchange(stopping_, true))
      return;
    end_by_ = clock::now() + std::chrono::duration_cast<clock::duration>(
                               std::chrono::duration<double>(plan_.grace));
    if (!lead_->done)
      lead_->running->signal(SIGTERM);
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
    say(*lead_, "is told to stop: all workers have ended");
    gave_up_ = true;
    lead_->running->signal(SIGTERM);
  }

  /// A node that has not found the server has nothing to finish, and would look
  /// for it as long as `connect-timeout`. A command of the user's may work on.
  void end_those_late() {
    for (auto& one : all_)
      if (!one.done && runs_a_node(one) && !one.connected && !one.told_late) {
        one.told_late = true;
        one.running->signal(SIGTERM);
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
        one.running->signal(told_ ? SIGKILL : SIGTERM);
      }
    told_ = true;
    deadline_ = clock::now() + (end_by_ ? for_last_words : patience);
  }

  /// Has a program that hangs write its stacks to its log.
  void take_stacks_of(node& one) {
    if (one.running->pid() == 0)
      return; // On another machine.
    external::stacks_of(one.running->pid());
    look_at(one);
  }

  const launch_plan& plan_;
  const hosts& hosts_;
  failure_report failures_;
  launch_output output_;
  signal_file signals_;
  std::list<node> all_;
  node* lead_ = nullptr;           ///< Its status is that of the run.
  std::optional<int> lead_status_; ///< Once the lead has ended for good.
  clock::time_point deadline_;
  /// When all are to have ended, if the launch was told to stop.
  std::optional<clock::time_point> end_by_;
  std::optional<clock::time_point> alone_since_; ///< The server has no worker.
  bool stopping_ = false;
  bool gave_up_ = false;
  bool told_ = false;
  bool was_stopped_ = false;     ///< A server has ended with status 75.
  uint32_t starts_ = 0;          ///< Of all processes.
  bool refused_ = false;         ///< A server has ended with status 2.
  std::vector<std::string> why_; ///< The lines of the server that failed first.
};

} // namespace

exit_status run_launch(const launch_plan& plan, const hosts& where) {
  return launcher{plan, where}.run();
}

} // namespace troupe::app
