#include "apps/launch/ssh/connecting.hpp"

#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>

namespace troupe::app {

namespace {

using clock = std::chrono::steady_clock;

/// After so long a line says for whom the launch waits, and again each time
/// that so long has passed.
constexpr auto before_words = std::chrono::seconds(3);
constexpr auto between_words = std::chrono::seconds(20);

/// When one host cannot be used, how long the others have to say so, too.
constexpr auto for_others = std::chrono::seconds(3);

/// stderr gets no more lines than these at the end of a process.
constexpr size_t most_lines = 3;

using remote_hosts = std::vector<std::unique_ptr<remote_host>>;

void wait_for_any(const remote_hosts& all) {
  std::vector<int> files;
  for (const auto& one : all)
    one->list_files(files);
  std::vector<pollfd> polled;
  for (auto one : files)
    polled.push_back({one, POLLIN, 0});
  constexpr int between_looks = 50; // ms
  poll(polled.data(), polled.size(), between_looks);
}

bool is_over(const remote_host& one) {
  return one.is_ready() || !one.failure_line().empty();
}

bool has_failed(const remote_hosts& all) {
  return std::ranges::any_of(
    all, [](const auto& one) { return !one->failure_line().empty(); });
}

[[noreturn]] void report(const remote_hosts& all) {
  std::string out;
  size_t lines = 0;
  size_t others = 0;
  for (const auto& one : all) {
    if (one->failure_line().empty())
      continue;
    if (lines == most_lines) {
      ++others;
      continue;
    }
    out += (lines++ == 0 ? "" : "\ntrainer_node: ") + one->failure_line();
  }
  if (others > 0)
    out += "; and " + config::count(others, "other host");
  throw run_error(out);
}

std::string awaited(const remote_hosts& all) {
  std::vector<std::string> out;
  for (const auto& one : all)
    if (!is_over(*one))
      out.push_back(one->awaited());
  return "launch       waits for " + config::join(out, ", ");
}

} // namespace

remote_hosts connect_hosts(std::span<const listed_host> places,
                           const launch_luggage& luggage,
                           const line_taker& say) {
  remote_hosts all;
  for (const auto& one : places)
    all.push_back(std::make_unique<remote_host>(one, luggage));
  auto next_words = clock::now() + before_words;
  auto end = clock::time_point::max();
  while (clock::now() < end && !std::ranges::all_of(all, [](const auto& one) {
           return is_over(*one);
         })) {
    wait_for_any(all);
    for (auto& one : all)
      one->look(say);
    if (has_failed(all))
      end = std::min(end, clock::now() + for_others);
    if (clock::now() > next_words && !has_failed(all)) {
      next_words = clock::now() + between_words;
      say(awaited(all));
    }
  }
  if (has_failed(all))
    report(all);
  return all;
}

} // namespace troupe::app
