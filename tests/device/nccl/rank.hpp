#pragma once
// A rank of a communicator of the double of NCCL: what it has been asked to do,
// and how far that is. Work waits in a stream of the fake device and goes on
// when somebody asks whether it is over; how far is drawn from a seed.
//
// Guarded by one lock of the process (`guard_of_all`), which is held while the
// fake device is called, never the other way round.

#include "tests/device/fake/device.hpp"
#include "tests/device/nccl/room.hpp"

#include <array>
#include <deque>
#include <map>
#include <mutex>

namespace troupe::testing::fake_nccl {

std::recursive_mutex& guard_of_all();

using lock = std::lock_guard<std::recursive_mutex>;

/// A rule of NCCL was broken: ends the process with a line, unless a test has
/// asked to be told.
void blame(const std::string& rule);

/// Told of breaches instead; null: nobody is.
extern void (*on_breach)(const char* line);

/// What goes wrong, by rank. Names are those of FAKE_NCCL_FAULTS:
/// `never-done:1,refused:0`.
///
/// | refused | initialising fails at once |
/// | never-meets | it never ends |
/// | meets-badly | it fails after a while |
/// | call-fails | calls are refused |
/// | never-issued | calls are taken and do not come in |
/// | never-done | operations never end |
/// | fails | an error is reported that no call has caused |
/// | stuck | operations do not end after an abort |
/// | sends-nan | what it gives are NaN |
bool is_wrong(const std::string& fault, int rank);

void spoil(const std::string& faults);

/// Whether something happens now.
bool chance();

/// A transfer that this rank takes part in.
struct part {
  action what;
  const void* from = nullptr;
  void* to = nullptr;
  size_t count = 0; ///< Of one range, in a collective.
  abi::data_type type = abi::data_type::float32;
  int peer = -1;       ///< All.
  uint64_t number = 0; ///< Of its way.
  bool posted = false;
};

class rank;

class transfer final : public fake::late_work {
public:
  transfer(rank* owner, const part& asked) : its(asked), owner_(owner) {
    // nop
  }

  bool is_over() override;

  /// Its communicator is gone: the device may still use the memory for a while,
  /// or for ever.
  void cancel(bool stuck);

  part its;
  bool done = false;

private:
  rank* owner_; ///< Null: cancelled.
  bool stuck_ = false;
};

class rank {
public:
  /// @param where Null: nobody has made such a room.
  rank(std::shared_ptr<room> where, int number, int size, int device);

  /// Aborts what is not over.
  ~rank();

  rank(const rank&) = delete;
  rank& operator=(const rank&) = delete;

  int number() const { return number_; }
  int device() const { return device_; }
  const std::string& error() const { return error_; }

  /// As ncclCommGetAsyncError.
  abi::result look();

  abi::result state() const { return state_; }

  /// Takes a transfer; at first it is on its way to the stream.
  abi::result issue(const part& asked, c10::Stream where);

  /// Lets the oldest work make progress.
  void move_on();

private:
  /// A posting that others have not taken yet.
  struct leftover {
    int to;
    uint64_t number;
    std::unique_ptr<numbers_file> file;
  };

  abi::result fail(abi::result code, const std::string& why);
  void look_at_meeting();
  bool misses_one() const;
  void come_in();
  bool advance(part& x);
  bool post(part& x);
  bool send(part& x);
  bool receive(part& x);
  bool collect(part& x);
  bool fits(const part& x, const posting& theirs) const;
  void take_down();

  std::shared_ptr<room> room_;
  int number_;
  int device_;
  bool met_ = false;
  abi::result state_ = abi::result::in_progress;
  std::string error_;
  bool notices_; ///< Hears of ranks that are gone.
  std::shared_ptr<transfer> arriving_;
  c10::Stream target_;
  std::deque<std::shared_ptr<transfer>> queue_;
  std::map<std::pair<action, int>, uint64_t> numbers_; ///< By way.
  std::deque<leftover> left_;
};

} // namespace troupe::testing::fake_nccl
