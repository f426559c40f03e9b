#include "apps/launch/ssh/remote_host.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace troupe::app {

namespace {

using std::chrono::seconds;

/// Until an agent has answered a question, or ended all that it has started.
constexpr auto patience_with_answer = seconds(20);

/// The same when nothing may wait.
constexpr auto patience_in_haste = seconds(2);

} // namespace

class remote_host::remote_process : public process {
public:
  remote_process(remote_host& on, uint64_t number) : on_(on), number_(number) {
    on_.processes_[number_] = this;
  }

  ~remote_process() override {
    if (!status_)
      signal(SIGKILL);
    on_.processes_.erase(number_);
  }

  void read(const line_taker& say) override {
    for (const auto& one : std::exchange(lines_, {}))
      say(one);
  }

  std::string live() const override { return live_; }

  std::optional<int> ended() override { return status_; }

  void signal(int number) override {
    if (status_)
      return;
    if (on_.is_ready())
      return on_.put(
        {.kind = frame_kind::signal, .process = number_, .number = number});
    // It waits for its host, and has not begun.
    on_.forget(number_);
    status_ = 128 + number;
  }

  void kill_rest() override {
    on_.put({.kind = frame_kind::kill_rest, .process = number_});
  }

  void take(const frame& one) {
    if (one.kind == frame_kind::line)
      lines_.push_back(one.text);
    else if (one.kind == frame_kind::live)
      live_ = one.text;
    else
      status_ = status_.value_or(static_cast<int>(one.number));
  }

private:
  remote_host& on_;
  uint64_t number_;
  std::vector<std::string> lines_;
  std::string live_;
  std::optional<int> status_;
};

remote_host::remote_host(listed_host place, const launch_luggage& luggage)
  : place_(std::move(place)), luggage_(luggage) {
  connect();
}

remote_host::~remote_host() = default;

std::string remote_host::awaited() const {
  auto what = [&]() -> std::string {
    switch (stage_) {
    case stage::sending:
      return "the program to arrive (" + config::size_text(lacking_bytes_) +
             ")";
    case stage::greeting:
      return "the program to start";
    case stage::copying:
      return "files to arrive";
    default:
      return "ssh to connect";
    }
  };
  return place_.address + ": " + what();
}

// -- frames -------------------------------------------------------------------

void remote_host::take_frame(const frame& one, const line_taker& say) {
  switch (one.kind) {
  case frame_kind::ready:
    return take_ready(one);
  case frame_kind::wanted:
    if (static_cast<size_t>(one.number) >= luggage_.files.size())
      throw run_error("the agent there wants a file that was not told of");
    return to_send_.push_back({static_cast<uint64_t>(one.number)});
  case frame_kind::copied:
    if (was_ready_)
      say("host " + place_.address + ": is connected again");
    was_ready_ = true;
    said_failure_.clear();
    has_sent_ = false;
    failures_ = 0;
    enter(stage::ready, clock::duration::max());
    for (const auto& each : std::exchange(waiting_, {}))
      put(each);
    return;
  case frame_kind::failed:
    if (stage_ != stage::ready)
      throw run_error(one.text);
    [[fallthrough]];
  case frame_kind::port:
  case frame_kind::folder:
    answer_ = one;
    return;
  case frame_kind::life:
    life_before_ = one.text;
    return;
  default:
    return take_of_process(one);
  }
}

void remote_host::take_of_process(const frame& one) {
  if (auto at = processes_.find(one.process); at != processes_.end())
    at->second->take(one);
}

void remote_host::forget(uint64_t number) {
  std::erase_if(waiting_,
                [number](const frame& one) { return one.process == number; });
}

/// Sends it, or keeps it until there is a connection.
void remote_host::put(frame one) {
  if (stage_ == stage::ready)
    link_->stream().put(one);
  else if (stage_ != stage::lost)
    waiting_.push_back(std::move(one));
}

frame remote_host::ask(const frame& question, frame_kind answer) {
  answer_.reset();
  put(question);
  auto end = clock::now() + patience_with_answer;
  while (stage_ == stage::ready && clock::now() < end) {
    std::vector<int> files;
    list_files(files);
    std::vector<pollfd> all;
    for (auto one : files)
      all.push_back({one, POLLIN, 0});
    poll(all.data(), all.size(), 100);
    look([](const std::string&) {});
    if (answer_ && answer_->kind == answer)
      return *answer_;
    if (answer_)
      throw run_error(place_.where + ": host " + place_.address + ": " +
                      answer_->text);
  }
  throw run_error(place_.where + ": host " + place_.address +
                  ": does not answer any more");
}

// -- processes ----------------------------------------------------------------

std::unique_ptr<process> remote_host::start(const child_plan& plan,
                                            size_t columns) {
  if (stage_ == stage::lost)
    pause();
  auto number = ++last_process_;
  auto out = std::make_unique<remote_process>(*this, number);
  if (told_secrets_ < luggage_.secrets->size() || stage_ != stage::ready)
    put({.kind = frame_kind::secrets, .table = *luggage_.secrets});
  told_secrets_ = luggage_.secrets->size();
  if (plan.run)
    put({.kind = frame_kind::run,
         .process = number,
         .number = plan.run->begins_with_another,
         .text = plan.run->train_dir.string(),
         .words = life_before_ ? std::vector{*life_before_}
                               : std::vector<std::string>{}});
  put({.kind = frame_kind::start,
       .process = number,
       .number = static_cast<int64_t>(columns),
       .text = plan.name,
       .words = plan.command,
       .table = plan.environment});
  return out;
}

uint16_t remote_host::find_port(const std::string& address) {
  return static_cast<uint16_t>(
    ask({.kind = frame_kind::find_port, .text = address}, frame_kind::port)
      .number);
}

std::filesystem::path remote_host::make_folder(const std::string& network) {
  return ask({.kind = frame_kind::make_folder, .text = network},
             frame_kind::folder)
    .text;
}

// -- the end ------------------------------------------------------------------

void remote_host::end_at_once() {
  ending_ = true;
  put({.kind = frame_kind::end, .number = 1});
  auto end = clock::now() + patience_in_haste;
  while (link_ && !link_->ended() && clock::now() < end) {
    link_->read();
    usleep(10'000);
  }
}

void remote_host::begin_end() {
  ending_ = true;
  put({.kind = frame_kind::end});
}

void remote_host::finish_end() {
  if (stage_ != stage::ready)
    link_.reset();
  auto end = clock::now() + patience_with_answer;
  while (link_ && !link_->ended() && clock::now() < end) {
    link_->read();
    if (link_->stream().unsent() == 0)
      link_->close_input();
    usleep(10'000);
  }
  link_.reset();
}

} // namespace troupe::app
