#pragma once
// The results of a benchmark: figures next to their references from the same
// run, printed at once and kept for a file. Main owns the report; one thread.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace troupe::bench {

struct figure {
  std::string name; ///< <topic>/<what>/<case>
  double value = 0;
  std::string unit;
  std::string reference; ///< What it is compared with.
  double reference_value = 0;
  double ratio = 0; ///< > 1: Troupe is better. Infinite, null in the file, if
                    ///< Troupe has none of what the other has.
};

/// Which values are better.
enum class better { higher, lower };

figure compare(std::string name, double value, std::string unit,
               std::string reference, double reference_value, better when);

class report {
public:
  /// A heading on stdout.
  void begin(const std::string& title);

  /// Shows what is being measured; overwrites itself on a terminal.
  void progress(const std::string& line);

  /// A row on stdout.
  void add(figure found);

  /// All figures so far, as a JSON list. Throws `run_error`.
  void save(const std::filesystem::path& path) const;

private:
  void clear();

  std::vector<figure> figures_;
  bool live_ = false; ///< The line of `progress` is on the terminal.
};

// -- measuring ----------------------------------------------------------------

/// @pre xs is not empty
double median(std::vector<double> xs);

/// The time that some work took.
struct spent {
  double seconds = 0;     ///< Wall time.
  double cpu_seconds = 0; ///< Of all threads: what others on the machine do
                          ///< counts less.
};

spent measure(const std::function<void()>& work);

/// Runs all of `works` in turn, `rounds` times, so that changes on the machine
/// affect all alike. Returns the medians of each.
std::vector<spent> alternate(size_t rounds,
                             const std::vector<std::function<void()>>& works,
                             const std::function<void(size_t round)>& progress);

} // namespace troupe::bench
