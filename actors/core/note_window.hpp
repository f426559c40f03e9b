#pragma once
// How far the recorder may be behind: notes are sent without waiting, but only
// so many may be unwritten. Every so many are acknowledged by one answer, so
// that an update costs no more messages. A value.

#include <cstdint>

namespace troupe::cores {

class note_window {
public:
  explicit note_window(uint64_t most = 4096, uint64_t batch = 512)
    : most_(most), batch_(batch) {
    // nop
  }

  /// Where the recorder cannot be behind.
  static note_window endless() { return note_window{UINT64_MAX, 512}; }

  /// One more is sent. True when it is to be acknowledged, for all up to it.
  bool send() {
    ++open_;
    return ++sent_ % batch_ == 0;
  }

  /// A batch was acknowledged.
  void acknowledge() { open_ -= batch_; }

  /// Whoever causes notes has to wait.
  bool is_full() const { return open_ >= most_; }

private:
  uint64_t most_;
  uint64_t batch_;
  uint64_t sent_ = 0;
  uint64_t open_ = 0; ///< Of these, those without an answer.
};

} // namespace troupe::cores
