#include "actors/recording/progress.hpp"

#include "config/text/text.hpp"

#include <cstdio>
#include <utility>

namespace troupe::recording {

namespace {

namespace native_metrics = config::native_metrics;

constexpr double live_interval = 0.2; // s
constexpr size_t most_names = 4;

template <class... Ts>
std::string format(const char* pattern, Ts... values) {
  char text[96];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string step_part(const progress_figures& figures) {
  auto result = "step " + std::to_string(figures.step);
  if (figures.max_steps)
    result += "/" + std::to_string(*figures.max_steps);
  return result;
}

/// The workers that the others wait for: a few by name, many by number.
std::string waiting_part(const progress_figures& figures) {
  const auto& who = figures.waiting_for;
  if (who.empty())
    return "";
  if (who.size() > most_names)
    return "waits for " + std::to_string(who.size()) + " of " +
           std::to_string(figures.workers) + " workers";
  std::string names;
  for (auto x : who)
    names += (names.empty() ? "" : ",") + to_string(x);
  return (who.size() == 1 ? "waits for worker " : "waits for workers ") + names;
}

} // namespace

std::string progress_line(const progress_figures& figures, size_t width) {
  // In the order of importance, which is also that of the line.
  std::string parts[] = {
    step_part(figures),
    figures.loss ? format("loss %.4f", *figures.loss) : "",
    figures.score ? metric_text(*figures.score) : "",
    format("%.0f samples/s", figures.samples_per_second),
    format("epoch %.2f", figures.epoch),
    waiting_part(figures),
    figures.top5 ? metric_text({native_metrics::accuracy_top5, *figures.top5})
                 : "",
  };
  std::string result;
  for (const auto& part : parts) {
    if (part.empty())
      continue;
    auto longer = result.empty() ? part : result + "  " + part;
    if (width > 0 && longer.size() > width)
      break;
    result = std::move(longer);
  }
  if (result.empty())
    result = parts[0].substr(0, width);
  return result;
}

std::string standstill_line(double seconds, const progress_figures& figures,
                            uint32_t wanted) {
  auto whom = waiting_part(figures);
  if (figures.missing > 0)
    whom = "waits for " + std::to_string(figures.missing) + " more " +
           (figures.missing == 1 ? "worker" : "workers");
  else if (figures.workers == 0 && figures.announced < wanted)
    whom = "waits for " + std::to_string(wanted - figures.announced) + " of " +
           config::count(wanted, "worker");
  else if (whom.empty())
    whom = figures.workers == 0 ? "no worker has begun"
                                : "waits for the gradients of " +
                                    config::count(figures.workers, "worker");
  return format("waiting      no step for %.0f s: ", seconds) + whom;
}

std::string metric_text(const config::metric& metric) {
  if (metric.name == native_metrics::accuracy)
    return format("accuracy %.2f %%", 100 * metric.value);
  if (metric.name == native_metrics::accuracy_top5)
    return format("top-5 %.2f %%", 100 * metric.value);
  return metric.name + format(" %.4f", metric.value);
}

std::string metrics_text(const config::metrics& all) {
  std::vector<std::string> parts;
  for (const auto& one : all)
    parts.push_back(metric_text(one));
  return config::join(parts, "  ");
}

std::string score_line(const evaluation_record& found) {
  return "evaluation   step " + std::to_string(found.step) + "  " +
         metrics_text(found.metrics);
}

std::string progress::plain_line(std::string_view line) {
  return std::string{line} + "\n";
}

progress::progress(size_t width, double interval, line_maker make)
  : width_(width), interval_(interval), make_(std::move(make)) {
  // nop
}

std::optional<std::string> progress::show(const progress_figures& figures,
                                          double now) {
  auto pause = width_ > 0 ? live_interval : interval_;
  if (last_ && now - *last_ < pause)
    return std::nullopt;
  last_ = now;
  return render(figures);
}

std::string progress::show_last(const progress_figures& figures) {
  auto result = render(figures);
  if (live_)
    result += "\n";
  live_ = false;
  return result;
}

std::string progress::clear() {
  if (!live_)
    return "";
  live_ = false;
  return std::string{erase_line};
}

std::string progress::render(const progress_figures& figures) {
  if (width_ == 0)
    return make_(progress_line(figures, 0));
  live_ = true;
  // The last column stays free: some terminals break the line there.
  return std::string{erase_line} +
         progress_line(figures, width_ > 1 ? width_ - 1 : 1);
}

} // namespace troupe::recording
