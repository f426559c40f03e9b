#include "apps/compare/page.hpp"

#include "config/failure.hpp"
#include "config/value.hpp"
#include "config/version.hpp"

#include <openssl/evp.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

namespace troupe::app {

namespace {

/// Colours that differ for most colour-blind people, too (Okabe and Ito 2008).
constexpr const char* colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                   "#E69F00", "#56B4E9", "#000000"};

const char* colour(size_t i) {
  return colours[i % std::size(colours)];
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (auto c : text)
    out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return out + "\"";
}

std::string escaped(const std::string& text) {
  std::string out;
  for (auto c : text)
    out += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
                      : std::string{c};
  return out;
}

std::string base64(const std::string& text) {
  std::string out(4 * ((text.size() + 2) / 3) + 1, '\0');
  auto size =
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                    reinterpret_cast<const unsigned char*>(text.data()),
                    static_cast<int>(text.size()));
  out.resize(static_cast<size_t>(size));
  return out;
}

/// What gnuplot draws, as SVG.
std::string draw(const std::string& script, const std::filesystem::path& folder,
                 int width, int height) {
  auto plan = folder / ".plot.gp";
  auto plot = folder / ".plot.svg";
  std::ofstream{plan} << "set encoding utf8\nset terminal svg size " << width
                      << "," << height
                      << " dynamic font \"sans-serif,13\" background "
                         "\"white\"\nset output "
                      << quoted(plot.string()) << "\n"
                      << script;
  auto command = "gnuplot '" + plan.string() + "' >'" +
                 (folder / ".plot.log").string() + "' 2>&1";
  if (plan.string().find('\'') != std::string::npos)
    throw run_error(folder.string() +
                    ": no plots in a folder with a ' in its name");
  auto status = std::system(command.c_str());
  std::ostringstream out;
  out << std::ifstream{plot}.rdbuf();
  std::ostringstream log;
  log << std::ifstream{folder / ".plot.log"}.rdbuf();
  for (const auto& path : {plan, plot, folder / ".plot.log"})
    std::filesystem::remove(path);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw run_error("gnuplot failed: " + log.str());
  return out.str();
}

std::string image(const std::string& title, const std::string& note,
                  const std::string& svg) {
  return "<h2>" + title + "</h2>\n<p>" + note + "</p>\n<img alt=\"" + title +
         "\" src=\"data:image/svg+xml;base64," + base64(svg) + "\">\n";
}

// -- accuracy over time -------------------------------------------------------

std::string accuracy_plot(const comparison& all,
                          const std::filesystem::path& folder) {
  std::ostringstream script;
  std::ostringstream plot;
  script << "set key bottom right\nset grid lc rgb \"#dddddd\"\n"
            "set xlabel \"virtual seconds\"\nset ylabel \"test accuracy\"\n"
            "set yrange [:1]\n";
  for (size_t i = 0; i < all.contenders.size(); ++i)
    for (size_t k = 0; k < all.contenders[i].runs.size(); ++k) {
      auto name = "$a" + std::to_string(i) + "_" + std::to_string(k);
      script << name << " << EOD\n";
      for (const auto& [time, accuracy] : all.contenders[i].runs[k].scores)
        script << time << " " << accuracy << "\n";
      script << "EOD\n";
      plot << (plot.tellp() == 0 ? "plot " : ", ") << name
           << " with lines lw 1.5 lc rgb \"" << colour(i) << "\" "
           << (k == 0 ? "title " + quoted(all.contenders[i].label) : "notitle");
    }
  if (all.target_accuracy)
    plot << ", " << *all.target_accuracy
         << " with lines dt 2 lc rgb \"#888888\" title \"target\"";
  return draw(script.str() + plot.str() + "\n", folder, 960, 460);
}

// -- staleness ----------------------------------------------------------------

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
  // The last few of a long tail would squeeze all others.
  for (double tail = 0; out.size() > 1 && tail + out.back() < 1e-3;
       out.pop_back())
    tail += out.back();
  return out;
}

std::string staleness_plot(const comparison& all,
                           const std::filesystem::path& folder) {
  std::ostringstream script;
  std::ostringstream plot;
  script << "set key top right\nset grid lc rgb \"#dddddd\"\n"
            "set xlabel \"staleness in updates\"\n"
            "set ylabel \"share of applied gradients\"\n"
            "set yrange [0:]\nset xrange [-0.5:]\n";
  for (size_t i = 0; i < all.contenders.size(); ++i) {
    auto shares = staleness_of(all.contenders[i]);
    script << "$s" << i << " << EOD\n";
    for (size_t k = 0; k < shares.size(); ++k)
      script << k << " " << shares[k] << "\n";
    script << "EOD\n";
    plot << (i == 0 ? "plot " : ", ") << "$s" << i
         << " with linespoints pt 7 ps 0.5 lw 1.5 lc rgb \"" << colour(i)
         << "\" title " << quoted(all.contenders[i].label);
  }
  return draw(script.str() + plot.str() + "\n", folder, 960, 380);
}

// -- who computes and who waits -----------------------------------------------

/// The time that all timelines cover.
double horizon_of(const comparison& all) {
  auto out = std::numeric_limits<double>::infinity();
  for (const auto& one : all.contenders)
    out = std::min(out, one.runs.front().timeline_end);
  return out;
}

std::string timeline_plot(const contender_figures& one, size_t number,
                          double horizon, const std::filesystem::path& folder) {
  const auto& stretches = one.runs.front().timeline;
  uint32_t workers = 0;
  for (const auto& x : stretches)
    workers = std::max(workers, x.worker + 1);
  std::ostringstream script;
  script << "set xlabel \"virtual seconds\"\nset ylabel \"worker\"\n"
         << "set xrange [0:" << horizon << "]\nset yrange [" << workers - 0.4
         << ":-0.6]\nset ytics 0," << 1 + workers / 32 << "\nset key above\n"
         << "set style fill solid 0.85 border rgb \"white\"\n";
  for (auto cancelled : {false, true}) {
    script << (cancelled ? "$c" : "$d") << " << EOD\n";
    for (const auto& x : stretches)
      if (x.cancelled == cancelled)
        script << x.begin << " " << x.worker << " " << x.begin << " " << x.end
               << " " << x.worker - 0.35 << " " << x.worker + 0.35 << "\n";
    script << "EOD\n";
  }
  script << "plot $d with boxxyerror lc rgb \"" << colour(number)
         << "\" title \"computes\"";
  auto any = std::ranges::any_of(stretches, &stretch::cancelled);
  if (any)
    script << ", $c with boxxyerror lc rgb \"#bbbbbb\" title \"cancelled\"";
  script << "\n";
  auto height = 110 + 18 * static_cast<int>(std::min(workers, 64u));
  return draw(script.str(), folder, 960, height);
}

constexpr const char* style = R"(
body { font: 16px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 980px;
       padding: 0 1rem; color: #222; }
pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; }
img { width: 100%; height: auto; }
h1, h2, h3 { line-height: 1.2; }
)";

} // namespace

bool can_draw() {
  return std::system("gnuplot --version >/dev/null 2>&1") == 0;
}

std::string to_page(const comparison& all,
                    const std::filesystem::path& folder) {
  std::string out =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>Troupe: policies compared</title>\n<style>" +
    std::string{style} + "</style>\n</head>\n<body>\n" +
    "<h1>Policies compared</h1>\n<p>Runs under Troupe's virtual clock. All "
    "times "
    "are virtual seconds; what follows ± is the standard deviation over the "
    "seeds.</p>\n<pre>" +
    escaped(all.command) + "</pre>\n<pre>" + escaped(to_table(all)) +
    "</pre>\n<p>wait: share of the workers' time spent waiting for the "
    "parameter "
    "server. staleness: updates between reading the weights and applying the "
    "gradient, its mean and largest value. accepted: applied gradients among "
    "all "
    "decided on; least: of the worker that has the fewest.</p>\n";
  auto scored = std::ranges::any_of(all.contenders, [](const auto& one) {
    return std::ranges::any_of(
      one.runs, [](const auto& run) { return !run.scores.empty(); });
  });
  if (scored)
    out += image("Accuracy over virtual time", "One line a run.",
                 accuracy_plot(all, folder));
  out += image("Staleness", "Over all runs of a policy.",
               staleness_plot(all, folder));
  out +=
    "<h2>Who computes and who waits</h2>\n<p>The first run of each policy. "
    "White is waiting, or a message on its way.</p>\n";
  auto horizon = horizon_of(all);
  for (size_t i = 0; i < all.contenders.size(); ++i)
    out += "<h3>" + escaped(all.contenders[i].label) +
           "</h3>\n<img alt=\"timeline\" src=\"data:image/svg+xml;base64," +
           base64(timeline_plot(all.contenders[i], i, horizon, folder)) +
           "\">\n";
  return out + "<p>Troupe " + std::string{config::version()} +
         "</p>\n</body>\n</html>\n";
}

} // namespace troupe::app
