#include "bench/figures.hpp"

#include "actors/runtime/wall_clock.hpp"
#include "config/text/failure.hpp"

#include <nlohmann/json.hpp>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <utility>

namespace troupe::bench {

namespace {

constexpr const char* erase_line = "\r\x1b[K";

/// Three significant digits; large numbers as whole ones.
std::string number(double x) {
  char text[40];
  auto size = std::abs(x);
  auto digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  std::snprintf(text, sizeof text, "%.*f", digits, x);
  return text;
}

} // namespace

figure compare(std::string name, double value, std::string unit,
               std::string reference, double reference_value, better when) {
  auto ratio = value == reference_value ? 1 // Of nothing and nothing, too.
               : when == better::higher ? value / reference_value
                                        : reference_value / value;
  return {std::move(name),      value,           std::move(unit),
          std::move(reference), reference_value, ratio};
}

void report::begin(const std::string& title) {
  clear();
  std::printf("\n%s\n", title.c_str());
  std::printf("  %-40s %10s %-8s %10s %6s  %s\n", "figure", "value", "unit",
              "reference", "ratio", "what the reference is");
  std::fflush(stdout);
}

void report::progress(const std::string& line) {
  if (::isatty(STDOUT_FILENO) == 0)
    return;
  clear();
  std::printf("  ... %.70s", line.c_str());
  std::fflush(stdout);
  live_ = true;
}

void report::add(figure found) {
  clear();
  std::printf("  %-40s %10s %-8s %10s %6.2f  %s\n", found.name.c_str(),
              number(found.value).c_str(), found.unit.c_str(),
              number(found.reference_value).c_str(), found.ratio,
              found.reference.c_str());
  std::fflush(stdout);
  figures_.push_back(std::move(found));
}

void report::save(const std::filesystem::path& path) const {
  auto list = nlohmann::ordered_json::array();
  for (const auto& x : figures_)
    list.push_back({{"name", x.name},
                    {"value", x.value},
                    {"unit", x.unit},
                    {"reference", x.reference},
                    {"reference_value", x.reference_value},
                    {"ratio", x.ratio}});
  std::ofstream out{path, std::ios::trunc};
  out << list.dump(2) << "\n";
  if (!out.flush())
    throw run_error("cannot write " + path.string());
}

void report::clear() {
  if (std::exchange(live_, false))
    std::fputs(erase_line, stdout);
}

// -- measuring ----------------------------------------------------------------

double median(std::vector<double> xs) {
  auto middle = xs.begin() + static_cast<std::ptrdiff_t>(xs.size() / 2);
  std::nth_element(xs.begin(), middle, xs.end());
  if (xs.size() % 2 == 1)
    return *middle;
  return (*middle + *std::max_element(xs.begin(), middle)) / 2;
}

spent measure(const std::function<void()>& work) {
  auto cpu = [] {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) +
           static_cast<double>(now.tv_nsec) * 1e-9;
  };
  auto before = cpu();
  wall_clock clock;
  work();
  return {clock.elapsed(), cpu() - before};
}

std::vector<spent>
alternate(size_t rounds, const std::vector<std::function<void()>>& works,
          const std::function<void(size_t round)>& progress) {
  std::vector<std::vector<spent>> found(works.size());
  for (size_t round = 0; round < rounds; ++round) {
    progress(round);
    for (size_t i = 0; i < works.size(); ++i)
      found[i].push_back(measure(works[i]));
  }
  auto median_of = [](const std::vector<spent>& all, double spent::*what) {
    std::vector<double> xs;
    for (const auto& x : all)
      xs.push_back(x.*what);
    return median(std::move(xs));
  };
  std::vector<spent> out;
  for (const auto& all : found)
    out.push_back(
      {median_of(all, &spent::seconds), median_of(all, &spent::cpu_seconds)});
  return out;
}

} // namespace troupe::bench
