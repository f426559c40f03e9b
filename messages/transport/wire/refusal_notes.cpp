#include "messages/transport/wire/refusal_notes.hpp"

#include <utility>

namespace troupe::transport {

refusal_notes::refusal_notes(std::function<void(const std::string&)> say)
  : say_(std::move(say)) {
  // nop
}

void refusal_notes::note(const std::string& line) {
  std::lock_guard guard{mutex_};
  auto now = std::chrono::steady_clock::now();
  if (now >= until_) {
    until_ = now + std::chrono::minutes{1};
    told_.clear();
  }
  if (!say_ || told_.size() == most || !told_.insert(line).second) {
    ++untold_;
    return;
  }
  auto more = std::exchange(untold_, 0);
  say_("sent away    " + line +
       (more > 0 ? " (and " + std::to_string(more) + " more before)" : ""));
}

} // namespace troupe::transport
