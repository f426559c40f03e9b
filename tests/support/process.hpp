#pragma once
// Starts, watches and kills processes for tests. A child that still runs when
// its object is destroyed is killed, and so is every child when the test dies.
// Owned by a test, used on its thread.

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

/// How long a test waits for something to happen. Far more than it takes,
/// because a machine may be slow; a test that waits so long has failed.
inline constexpr std::chrono::seconds patience{60};

/// Polls until `done` returns true; throws with `event` after `limit`.
void eventually(const std::string& event, const std::function<bool()>& done,
                std::chrono::seconds limit = patience);

/// A free port below those that the system gives to outgoing connections, so
/// that no other program takes it by chance.
uint16_t free_port();

struct child_options {
  std::filesystem::path folder;                   ///< Where it starts.
  std::map<std::string, std::string> environment; ///< Added to the own one.
  std::optional<uint64_t> largest_file;           ///< bytes
  std::optional<uint64_t> most_files;             ///< Limit of open files.
  std::optional<uint64_t> address_space;          ///< bytes
  std::optional<int> output; ///< stdout and stderr, instead of files.
  bool under_nohup = false;  ///< SIGHUP is ignored.
};

/// A process. What it prints goes to <stem>.out and <stem>.err.
class child {
public:
  child(const std::vector<std::string>& command, std::filesystem::path stem,
        const child_options& how = {});
  ~child();
  child(child&& other) noexcept;
  child& operator=(child&& other) noexcept;

  /// Its id; 0 once it has ended.
  pid_t pid() const noexcept { return pid_; }

  bool running();

  void signal(int number);

  /// Sets its limit of open files, which may be raised again.
  void may_open(uint64_t most);

  /// Seconds of CPU time that it has used.
  double core_seconds() const;

  /// Waits until it ends; returns its exit status, or 128 + the number of the
  /// signal that killed it. Throws when it does not end in time.
  int wait(std::chrono::seconds limit = patience);

  /// Kills it as `kill -9` does and waits until it has ended.
  void kill();

  /// Waits until its output contains `pattern`. Throws when it ends before.
  void await(const std::string& pattern, std::chrono::seconds limit = patience);

  bool said(const std::string& pattern) const;

  std::string out() const;
  std::string err() const;

  /// Its status and the end of its output, for the log of a failed test.
  std::string report() const;

private:
  void take_status(int status);

  std::filesystem::path stem_;
  pid_t pid_ = 0;
  std::optional<int> status_;
};

} // namespace troupe::testing
