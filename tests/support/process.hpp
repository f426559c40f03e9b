#pragma once
// Real processes for tests: started, watched, killed. A child that still runs
// when its object goes is killed, and so is every child when the test dies.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::testing {

/// How long a test waits for what must come. Far above what it takes, since a
/// machine may be slow; a test that gets here has failed.
inline constexpr std::chrono::seconds patience{60};

/// Asks again and again until `done`; throws with `what` when it does not come.
void eventually(const std::string& what, const std::function<bool()>& done,
                std::chrono::seconds limit = patience);

/// A port that nobody listens on. It lies below those that the system gives to
/// outgoing connections, so that no other program takes it by chance.
uint16_t free_port();

struct child_options {
  std::filesystem::path folder;                   ///< Where it starts.
  std::map<std::string, std::string> environment; ///< Beside the test's own.
  std::optional<uint64_t> largest_file;           ///< bytes
  std::optional<uint64_t> most_files;             ///< That it may have open.
  std::optional<uint64_t> address_space;          ///< bytes
  std::optional<int> output; ///< stdout and stderr, instead of files.
};

/// A process. What it prints goes to <stem>.out and <stem>.err.
class child {
public:
  child(const std::vector<std::string>& command, std::filesystem::path stem,
        const child_options& how = {});
  ~child();
  child(child&& other) noexcept;
  child& operator=(child&& other) noexcept;

  /// 0 once it has ended.
  pid_t pid() const noexcept { return pid_; }

  bool running();

  void signal(int number);

  /// From now on it may have so many files open.
  void may_open(uint64_t most);

  /// s of a core that it has had so far.
  double core_seconds() const;

  /// Its exit status, 128 + the number of the signal that killed it. Throws
  /// when it does not end.
  int wait(std::chrono::seconds limit = patience);

  /// Kills it as `kill -9` does and waits until it is gone.
  void kill();

  /// Waits until its output holds `pattern`. Throws when it ends without.
  void await(const std::string& pattern, std::chrono::seconds limit = patience);

  bool said(const std::string& pattern) const;

  std::string out() const;
  std::string err() const;

  /// How it ended and the end of what it said, for the log of a failed test.
  std::string report() const;

private:
  void take_status(int status);

  std::filesystem::path stem_;
  pid_t pid_ = 0;
  std::optional<int> status_;
};

} // namespace troupe::testing
