// How a remote host gets its connection, and loses it.

#include "apps/launch/ssh/remote_host.hpp"
#include "config/text/failure.hpp"
#include "config/text/one_line.hpp"
#include "config/text/text.hpp"
#include "config/text/version.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

namespace troupe::app {

namespace {

using std::chrono::seconds;

/// Until ssh has connected and the host's shell has answered.
constexpr auto patience_with_ssh = seconds(60);

/// Until the agent says a word.
constexpr auto patience_with_agent = seconds(60);

constexpr auto between_words = seconds(5);

/// Between two attempts to connect, at most.
constexpr auto longest_pause = seconds(30);

/// How long processes wait for a host that was lost, as when it starts anew.
constexpr auto longest_absence = std::chrono::minutes(10);

constexpr size_t bytes_of_a_piece = size_t{256} << 10;

/// While so much waits to be sent, no more of a file is read.
constexpr size_t most_unsent = size_t{1} << 20;

/// The status of a process whose host was lost; ssh has it, too.
constexpr int lost_status = 255;

/// @param free_kib As df says it.
void require_room(const std::string& folder, const std::string& free_kib,
                  uint64_t bytes) {
  uint64_t free = 0;
  auto is_number =
    std::from_chars(free_kib.data(), free_kib.data() + free_kib.size(), free)
      .ec == std::errc{};
  if (is_number && free < (bytes >> 10))
    throw run_error("the program takes " + config::size_text(bytes) + ", and " +
                    folder + " has room for " + config::size_text(free << 10) +
                    ": " + make_room);
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in{line};
  for (std::string word; in >> word;)
    out.push_back(word);
  return out;
}

} // namespace

void remote_host::enter(stage next, clock::duration limit) {
  stage_ = next;
  deadline_ = limit == clock::duration::max() ? clock::time_point::max()
                                              : clock::now() + limit;
}

void remote_host::connect() {
  failure_.clear();
  told_secrets_ = 0;
  to_send_.clear();
  link_ = std::make_unique<ssh_link>(ssh_command(
    luggage_.ssh, place_.login, command_of_agent(luggage_.program)));
  enter(stage::asking, patience_with_ssh);
}

void remote_host::list_files(std::vector<int>& out) const {
  if (link_)
    link_->list_files(out);
}

void remote_host::look(const line_taker& say) {
  try {
    if (stage_ == stage::pausing && clock::now() > deadline_)
      connect();
    if (link_)
      read_link(say);
  } catch (const failure& why) {
    lose(one_line(why));
  }
  if (link_ && clock::now() > deadline_)
    lose(stage_ == stage::asking
           ? "ssh has not connected for a minute; see whether ssh " +
               place_.login + " works by hand"
           : "the program there has not answered for a minute");
  if (link_ && stage_ >= stage::greeting &&
      clock::now() > said_alive_ + between_words) {
    said_alive_ = clock::now();
    link_->stream().put({.kind = frame_kind::alive});
  }
  auto is_news = !failure_.empty() && failure_ != said_failure_;
  if (is_news && was_ready_ && !ending_)
    say(said_failure_ = failure_);
}

void remote_host::read_link(const line_taker& say) {
  // Before its lines are read: those that it said last are then among them.
  const auto* link = link_.get();
  auto status = link_->ended();
  auto complaints = link_->read();
  if (stage_ == stage::ready)
    for (const auto& line : complaints)
      say(line);
  if (stage_ == stage::asking || stage_ == stage::sending)
    read_answer();
  if (stage_ >= stage::greeting && stage_ != stage::lost)
    while (auto one = link_->stream().take())
      take_frame(*one, say);
  if (stage_ == stage::copying)
    send_files();
  if (!status || link_.get() != link) // There is another one by now, or none.
    return;
  if (stage_ == stage::sending)
    return program_was_sent(*status);
  lose(explain_ssh(link_->complaints(), *status, place_.login));
}

void remote_host::read_answer() {
  constexpr std::string_view ours = "troupe-launch ";
  // A login script may print what it likes before.
  while (auto line = link_->stream().take_line())
    if (line->starts_with(ours))
      return take_answer(line->substr(ours.size()));
}

void remote_host::take_answer(const std::string& line) {
  auto words = words_of(line);
  if (words.empty())
    return;
  if (words[0] == "ready")
    return greet();
  if (words[0] == "failed")
    return lose(line.substr(words[0].size() + 1) +
                "; see that there is room, and that it may be written to");
  if (words[0] == "stored") // Its end is awaited.
    return;
  if (words[0] != "lacks" || words.size() < 5)
    throw run_error("its shell has answered " + config::in_quotes(line));
  if (has_sent_)
    throw run_error("the program did not arrive there: see that there is room "
                    "in " +
                    words[2]);
  send_program(words[1], words[2], words[3], {words.begin() + 4, words.end()});
}

// A folder of links here has the names that the files get there.
void remote_host::send_program(const std::string& way,
                               const std::string& folder,
                               const std::string& free_kib,
                               const std::vector<std::string>& lacking) {
  lacking_bytes_ = 0;
  std::string make = "d=$(mktemp -d) && trap \"rm -rf $d\" EXIT && cd $d";
  for (const auto& one : luggage_.program)
    if (std::ranges::find(lacking, one.stored) != lacking.end()) {
      lacking_bytes_ += one.size;
      make +=
        " && ln -s " + quoted(one.from.string()) + " " + quoted(one.stored);
    }
  require_room(folder, free_kib, lacking_bytes_);
  auto has_colon = place_.address.find(':') != std::string::npos;
  auto bracketed = place_.login;
  if (has_colon)
    bracketed.insert(bracketed.size() - place_.address.size(), "[") += "]";
  auto by_rsync = make + " && rsync -s -L -p --fuzzy -e " +
                  quoted(ssh_with_options(luggage_.ssh)) + " * " +
                  quoted(bracketed + ":" + folder + "/");
  auto by_tar = make + " && tar -chf - * | " + ssh_with_options(luggage_.ssh) +
                " " + place_.login + " " + quoted(command_to_store(folder));
  auto takes_rsync =
    way == "rsync" && std::system("command -v rsync > /dev/null 2>&1") == 0;
  link_ = std::make_unique<ssh_link>(
    std::vector<std::string>{"/bin/sh", "-c", takes_rsync ? by_rsync : by_tar});
  enter(stage::sending, clock::duration::max());
}

void remote_host::program_was_sent(int status) {
  if (status != 0)
    return lose(explain_ssh(link_->complaints(), status, place_.login));
  has_sent_ = true;
  connect();
}

void remote_host::greet() {
  enter(stage::greeting, patience_with_agent);
  link_->stream().put({.kind = frame_kind::begin,
                       .number = launch_protocol,
                       .text = std::string{config::version()},
                       .words = {std::filesystem::current_path().string(),
                                 luggage_.program.front().from.string()}});
}

void remote_host::lose(std::string why) {
  failure_ = place_.where + ": host " + place_.address + ": " + std::move(why);
  link_.reset();
  ++failures_;
  if (stage_ == stage::ready)
    lost_at_ = clock::now();
  else if (was_ready_ && !ending_ && clock::now() < lost_at_ + longest_absence)
    return pause();
  enter(stage::lost, clock::duration::max());
  waiting_.clear();
  // Those that have ended before keep their status.
  for (auto& [number, one] : processes_)
    take_of_process(
      {.kind = frame_kind::ended, .process = number, .number = lost_status});
}

/// Before the next attempt to connect.
void remote_host::pause() {
  auto exponent = std::min(failures_ - 1, 5);
  enter(stage::pausing,
        std::min<seconds>(longest_pause, seconds(1 << exponent)));
}

void remote_host::take_ready(const frame& one) {
  if (one.number != launch_protocol || one.text != config::version() ||
      one.words.size() != 2)
    throw run_error(
      "runs release " + config::shown(one.text) + " of Troupe, and this is " +
      std::string{config::version()} + ": remove ~/.cache/troupe/launch there");
  cores_ = static_cast<uint32_t>(std::stoul(one.words[0]));
  folder_ = one.words[1];
  for (const auto& each : luggage_.files)
    link_->stream().put(
      {.kind = frame_kind::file,
       .text = each.file.to,
       .words = {each.name, each.file.digest, std::to_string(each.file.size),
                 std::to_string(each.file.mode)}});
  link_->stream().put({.kind = frame_kind::files_told});
  enter(stage::copying, clock::duration::max());
}

void remote_host::send_files() {
  while (!to_send_.empty() && link_->stream().unsent() < most_unsent) {
    auto& one = to_send_.front();
    const auto& file = luggage_.files[one.number].file;
    std::ifstream from{file.from, std::ios::binary};
    from.seekg(static_cast<std::streamoff>(one.at));
    std::string piece(bytes_of_a_piece, '\0');
    from.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    piece.resize(
      static_cast<size_t>(std::max<std::streamsize>(from.gcount(), 0)));
    auto last = piece.size() < bytes_of_a_piece;
    one.at += piece.size();
    link_->stream().put({.kind = frame_kind::file_bytes,
                         .process = one.number,
                         .number = last,
                         .text = std::move(piece)});
    if (last)
      to_send_.pop_front();
  }
}

} // namespace troupe::app
