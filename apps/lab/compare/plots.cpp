#include "apps/lab/compare/plots.hpp"

#include "apps/scratch_folder.hpp"
#include "config/text/failure.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

namespace troupe::app {

namespace {

namespace fs = std::filesystem;

// -- gnuplot ------------------------------------------------------------------

std::string content_of(const fs::path& file) {
  std::ostringstream out;
  out << std::ifstream{file}.rdbuf();
  return out.str();
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (auto c : text)
    out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return out + "\"";
}

plot draw(std::string name, const std::string& script, int height) {
  scratch_folder folder;
  auto in = [&](const char* file) {
    return (folder.path() / file).string();
  };
  std::ofstream{in("plan")} << "set encoding utf8\n"
                               "set terminal svg size 960,"
                            << height
                            << " dynamic font \"sans-serif,13\" background "
                               "\"white\"\nset output "
                            << quoted(in("plot")) << "\n"
                            << script;
  auto command = "gnuplot '" + in("plan") + "' >'" + in("log") + "' 2>&1";
  auto status = std::system(command.c_str());
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw run_error("gnuplot failed: " + content_of(in("log")));
  return {std::move(name), content_of(in("plot"))};
}

/// Colours that most colour-blind people can tell apart (Okabe and Ito 2008).
constexpr const char* colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                   "#E69F00", "#56B4E9", "#000000"};

std::string colour(size_t i) {
  return quoted(colours[i % std::size(colours)]);
}

/// A line style of its own for each policy, even when there are more policies
/// than colours.
std::string line(size_t i) {
  return "lw 1.5 dt " + std::to_string(1 + i / std::size(colours)) +
         " lc rgb " + colour(i);
}

/// Series of points, and the one command that plots them all.
class series {
public:
  /// Adds one; `points` is called with a stream for lines of numbers.
  template <class Points>
  void add(const std::string& style, Points points) {
    auto name = "$s" + std::to_string(count_++);
    data_ << name << " << EOD\n";
    points(data_);
    data_ << "EOD\n";
    expression(name + " " + style);
  }

  void expression(const std::string& text) {
    plot_ << (plot_.tellp() == 0 ? "plot " : ", ") << text;
  }

  std::string script() const { return data_.str() + plot_.str() + "\n"; }

private:
  size_t count_ = 0;
  std::ostringstream data_;
  std::ostringstream plot_;
};

constexpr const char* usual_grid = "set grid lc rgb \"#dddddd\"\n";

/// Shares of applied gradients by staleness, over all runs.
std::vector<double> staleness_of(const contender_figures& one) {
  std::vector<double> out;
  double sum = 0;
  for (const auto& run : one.runs)
    for (size_t i = 0; i < run.staleness.size(); ++i) {
      out.resize(std::max(out.size(), i + 1));
      out[i] += static_cast<double>(run.staleness[i]);
      sum += static_cast<double>(run.staleness[i]);
    }
  for (auto& x : out)
    x /= std::max(1.0, sum);
  // The last few values of a long tail would squeeze all others.
  for (double tail = 0; out.size() > 1 && tail + out.back() < 1e-3;
       out.pop_back())
    tail += out.back();
  return out;
}

plot timeline_plot(const contender_figures& one, size_t number,
                   double horizon) {
  const auto& stretches = one.runs.front().timeline;
  uint32_t workers = 0;
  for (const auto& x : stretches)
    workers = std::max(workers, x.worker + 1);
  std::ostringstream head;
  head << "set xlabel \"virtual seconds\"\nset ylabel \"worker\"\n"
       << "set xrange [0:" << horizon << "]\nset yrange [" << workers - 0.4
       << ":-0.6]\nset ytics 0," << 1 + workers / 32 << "\nset key above\n"
       << "set style fill solid 0.85 border rgb \"white\"\n";
  series boxes;
  auto add = [&](bool cancelled, const std::string& style) {
    boxes.add(style, [&](std::ostream& out) {
      for (const auto& x : stretches)
        if (x.cancelled == cancelled)
          out << x.begin << " " << x.worker << " " << x.begin << " " << x.end
              << " " << x.worker - 0.35 << " " << x.worker + 0.35 << "\n";
    });
  };
  add(false,
      "with boxxyerror lc rgb " + colour(number) + " title \"computes\"");
  if (std::ranges::any_of(stretches, &stretch::cancelled))
    add(true, "with boxxyerror lc rgb \"#bbbbbb\" title \"cancelled\"");
  auto height = 110 + 18 * static_cast<int>(std::min(workers, 64u));
  return draw("timeline-" + std::to_string(number + 1),
              head.str() + boxes.script(), height);
}

} // namespace

bool can_draw() {
  return std::system("gnuplot --version >/dev/null 2>&1") == 0;
}

std::optional<plot> target_plot(const comparison& all) {
  std::ostringstream head;
  head << usual_grid << "set ylabel \"virtual seconds to the target\"\n"
       << "set yrange [0:]\nset xrange [-0.6:"
       << static_cast<double>(all.contenders.size()) - 0.4
       << "]\nset xtics rotate by -20 (";
  series points;
  auto any = false;
  for (size_t i = 0; i < all.contenders.size(); ++i) {
    const auto& one = all.contenders[i];
    head << (i == 0 ? "" : ", ") << quoted(one.label) << " " << i;
    if (one.reached() == 0)
      continue;
    any = true;
    points.add("with points pt 7 ps 0.8 lc rgb " + colour(i) + " notitle",
               [&](std::ostream& out) {
                 for (const auto& run : one.runs)
                   if (run.seconds_to_target)
                     out << i << " " << *run.seconds_to_target << "\n";
               });
    auto mean = one.of([](const auto& run) { return run.seconds_to_target; });
    points.add("with vectors nohead lw 3 lc rgb " + colour(i) + " notitle",
               [&](std::ostream& out) {
                 out << static_cast<double>(i) - 0.25 << " " << mean.mean
                     << " 0.5 0\n";
               });
  }
  head << ")\n";
  if (!any)
    return std::nullopt;
  return draw("target", head.str() + points.script(), 400);
}

std::optional<plot> accuracy_plot(const comparison& all) {
  series lines;
  auto any = false;
  for (size_t i = 0; i < all.contenders.size(); ++i)
    for (const auto& run : all.contenders[i].runs) {
      any = any || !run.scores.empty();
      std::string title = " notitle";
      if (&run == &all.contenders[i].runs.front())
        title = " title " + quoted(all.contenders[i].label);
      lines.add("with lines " + line(i) + title, [&](std::ostream& out) {
        for (const auto& [time, accuracy] : run.scores)
          out << time << " " << accuracy << "\n";
      });
    }
  if (!any)
    return std::nullopt;
  if (all.target_accuracy)
    lines.expression(std::to_string(*all.target_accuracy) +
                     " with lines dt 2 lc rgb \"#888888\" title \"target\"");
  std::ostringstream script;
  script << usual_grid
         << "set key bottom right\nset xlabel \"virtual seconds\"\n"
            "set ylabel \"test accuracy\"\nset yrange [:1]\n"
         << lines.script();
  return draw("accuracy", script.str(), 460);
}

plot staleness_plot(const comparison& all) {
  series lines;
  for (size_t i = 0; i < all.contenders.size(); ++i)
    lines.add("with linespoints pt 7 ps 0.5 " + line(i) + " title " +
                quoted(all.contenders[i].label),
              [&](std::ostream& out) {
                auto shares = staleness_of(all.contenders[i]);
                for (size_t k = 0; k < shares.size(); ++k)
                  out << k << " " << shares[k] << "\n";
              });
  std::ostringstream script;
  script << usual_grid
         << "set key top right\nset xlabel \"staleness in updates\"\n"
            "set ylabel \"share of applied gradients\"\n"
            "set yrange [0:]\nset xrange [-0.5:]\n"
         << lines.script();
  return draw("staleness", script.str(), 380);
}

std::vector<plot> timeline_plots(const comparison& all) {
  auto horizon = std::numeric_limits<double>::infinity();
  for (const auto& one : all.contenders)
    horizon = std::min(horizon, one.runs.front().timeline_end);
  std::vector<plot> out;
  for (size_t i = 0; i < all.contenders.size(); ++i)
    out.push_back(timeline_plot(all.contenders[i], i, horizon));
  return out;
}

} // namespace troupe::app
