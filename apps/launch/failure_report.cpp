#include "apps/launch/failure_report.hpp"

#include "actors/recording/log_lines.hpp"
#include "apps/launch/node_lines.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

namespace troupe::app {

namespace {

constexpr size_t most_of_tail = 20;
constexpr size_t longest_of_tail = 500;

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", seconds);
  return text.data();
}

recording::failed_process as_process(const failure_report::ended& one) {
  const auto& who = one.who;
  return {who.role,
          who.rank,
          who.host,
          who.pid > 0 ? std::optional{who.pid} : std::nullopt,
          recording::time_of_day(),
          how_it_ended(one.status),
          one.lines};
}

} // namespace

void line_tail::add(const std::string& line) {
  last_.push_back(line.substr(0, longest_of_tail));
  if (last_.size() > most_of_tail)
    last_.pop_front();
}

std::string how_it_ended(int status) {
  if (status <= 128)
    return "ended with status " + std::to_string(status);
  const auto* name = sigabbrev_np(status - 128);
  return "was killed by " + (name != nullptr
                               ? "SIG" + std::string{name}
                               : "signal " + std::to_string(status - 128));
}

failure_report::failure_report()
  : file_(memfd_create("troupe-failures", MFD_CLOEXEC)) {
  if (file_.get() >= 0)
    path_ = "/proc/" + std::to_string(getpid()) + "/fd/" +
            std::to_string(file_.get());
}

void failure_report::note(ended one) {
  std::chrono::duration<double> after =
    std::chrono::steady_clock::now() - begun_;
  if (file_.get() >= 0 && !one.collateral) {
    auto line = to_json(as_process(one)) + "\n";
    if (write(file_.get(), line.data(), line.size()) < 0)
      file_ = {}; // The servers do without.
  }
  all_.push_back({std::move(one), after.count()});
}

std::vector<failure_report::remark>
failure_report::remarks(bool with_lines) const {
  std::vector<remark> out;
  if (all_.empty())
    return out;
  const auto& [first, after] = all_.front();
  auto pid = first.who.pid;
  out.push_back(
    {first.name, "first failure: " + how_it_ended(first.status) + " after " +
                   seconds_text(after) + " (" + first.who.host +
                   (pid > 0 ? ", pid " + std::to_string(pid) : "") + ")"});
  if (with_lines)
    for (const auto& line : first.lines)
      out.push_back({first.name, "  " + line});
  for (size_t i = 1; i < all_.size(); ++i) {
    const auto& [what, when] = all_[i];
    auto how = how_it_ended(what.status) + " after " + seconds_text(when);
    out.push_back({what.name, what.collateral
                                ? "collateral: " + how + ", since " +
                                    first.name + " had failed"
                                : "failed later: " + how});
  }
  return out;
}

} // namespace troupe::app
