#pragma once
// Limits how far the recorder may lag behind. Notes are sent without waiting,
// but only a limited number may be unwritten. The recorder acknowledges them in
// batches, so that an update costs no extra message.
//
// A value, owned by the parameter server; not thread-safe.

#include <cstdint>

namespace troupe::recording {

class note_window {
public:
  explicit note_window(uint64_t most = 4096, uint64_t batch = 512)
    : most_(most), batch_(batch) {
    // nop
  }

  /// Without a limit, for runs in which the recorder cannot lag.
  static note_window endless() { return note_window{UINT64_MAX, 512}; }

  /// Counts a note. Returns true when the recorder is to acknowledge it, and
  /// with it all notes before.
  bool send() {
    ++open_;
    return ++sent_ % batch_ == 0;
  }

  /// A batch was acknowledged.
  void acknowledge() { open_ -= batch_; }

  /// Whether requests that cause notes have to wait.
  bool is_full() const { return open_ >= most_; }

private:
  uint64_t most_;
  uint64_t batch_;
  uint64_t sent_ = 0;
  uint64_t open_ = 0; ///< Notes not acknowledged yet.
};

} // namespace troupe::recording
