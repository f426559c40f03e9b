#pragma once
// Tells the user why nodes are sent away. Strangers come as often as they like,
// so each reason is told once a minute, and only so many of them.
// Thread-safe.

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>

namespace troupe::transport {

class refusal_notes {
public:
  /// Different lines in a minute.
  static constexpr size_t most = 16;

  /// @param say Called with the lock held; or null.
  explicit refusal_notes(std::function<void(const std::string&)> say);

  /// @param line Who, and why.
  void note(const std::string& line);

private:
  std::function<void(const std::string&)> say_;
  std::mutex mutex_;
  std::set<std::string> told_; ///< In this minute.
  std::chrono::steady_clock::time_point until_{};
  uint64_t untold_ = 0;
};

} // namespace troupe::transport
