#pragma once
// Which processes of a launch have failed, in their order: the first one, and
// what followed from it. Notes them in a file, from which the servers take what
// they cannot see themselves. For one thread.

#include "actors/recording/first_failure.hpp"
#include "actors/recording/log_lines.hpp"
#include "config/text/descriptor.hpp"

#include <chrono>
#include <deque>
#include <string>
#include <vector>

namespace troupe::app {

/// The last lines of a process.
class line_tail {
public:
  void add(const std::string& line);

  std::vector<std::string> lines() const {
    return {last_.begin(), last_.end()};
  }

private:
  std::deque<std::string> last_;
};

/// How a process ended, as its exit status or 128 + the number of a signal
/// says: "was killed by SIGKILL".
std::string how_it_ended(int status);

class failure_report {
public:
  /// A process whose end is a failure.
  struct ended {
    std::string name; ///< "worker-1"
    recording::log_origin who;
    int status = 0;
    std::vector<std::string> lines; ///< Its last ones.
    /// It failed since another one did, which it needs.
    bool collateral = false;
  };

  /// One line about a process.
  struct remark {
    std::string name;
    std::string line;
  };

  failure_report();

  /// The file, as other processes of this user find it; empty: there is none.
  const std::string& path() const { return path_; }

  void note(ended one);

  bool any() const { return !all_.empty(); }

  /// What there is to say at the end of the launch.
  /// @param with_lines Whether the last lines of the first one are wanted.
  std::vector<remark> remarks(bool with_lines) const;

private:
  struct entry {
    ended what;
    double after = 0; ///< s since the launch began.
  };

  config::descriptor file_;
  std::string path_;
  std::chrono::steady_clock::time_point begun_ =
    std::chrono::steady_clock::now();
  std::vector<entry> all_;
};

} // namespace troupe::app
