#pragma once
// Where the ranks of one communicator of the double of NCCL meet: memory that
// their processes share. The process that makes the id makes it, as a file that
// has no name; the others open it through /proc. So nothing is left when all
// have been killed.
//
// Numbers lie in files of their own, one for each posting, which only their
// owner writes. A rank that dies takes its files with it; what others have not
// taken by then never comes.
//
// Thread-safe. The lock is one of all processes; who dies with it leaves it to
// the next.

#include "models/device/nccl/abi.hpp"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::testing::fake_nccl {

namespace abi = models::nccl;

inline constexpr int most_ranks = 8;

/// Postings of one kind that wait to be taken.
inline constexpr uint64_t most_postings = 8;

enum class action : uint8_t { send = 1, receive, reduce_scatter, all_gather };

/// What a rank has done its part of: numbers for others.
struct posting {
  uint64_t number = 0; ///< From 1; 0: none.
  action what = action::send;
  abi::data_type type = abi::data_type::float32;
  uint64_t count = 0;
  pid_t process = 0;
  int file = -1;
  uint64_t key = 0;   ///< The first bytes of the file.
  uint32_t taken = 0; ///< A bit for each rank.
};

/// A file in memory with numbers for others.
class numbers_file {
public:
  explicit numbers_file(std::span<const std::byte> numbers);
  ~numbers_file();

  numbers_file(const numbers_file&) = delete;
  numbers_file& operator=(const numbers_file&) = delete;

  /// Enters in a posting where the file is.
  void describe(posting& to) const;

private:
  int file_;
  uint64_t key_;
};

/// The numbers of a posting; nothing if its owner is gone.
std::optional<std::vector<std::byte>> read_numbers(const posting& from);

/// What a rank tells of itself.
struct seat {
  bool taken = false;
  bool gone = false; ///< Aborted.
  pid_t process = 0;
  char gpu[64] = "";
};

class room {
public:
  /// Makes one, which lives as long as this process, and writes the id of a
  /// communicator that leads to it.
  static void make(abi::unique_id& id);

  /// Opens it; null if nobody has made it, or the maker is gone.
  static std::shared_ptr<room> open(const abi::unique_id& id);

  ~room();

  room(const room&) = delete;
  room& operator=(const room&) = delete;

  /// Why this rank cannot enter; empty: it has.
  std::string enter(int rank, int size, const std::string& gpu);

  int size() const;

  /// A copy, of all ranks.
  std::vector<seat> seats() const;

  /// Aborts.
  void leave(int rank);

  /// Whether this rank's process is there and has not aborted.
  bool is_here(int rank) const;

  /// Puts up a posting to one rank, or to all (`to` < 0); false if those before
  /// it still take its place.
  bool post(int from, int to, const posting& numbers);

  std::optional<posting> find(int from, int to, uint64_t number) const;

  /// The rank has taken this posting.
  void take(int from, int to, uint64_t number, int taker);

  /// Takes a posting down if all have taken it.
  bool take_down(int from, int to, uint64_t number);

private:
  struct memory;

  explicit room(memory* at) : at_(at) {
    // nop
  }

  posting& place(int from, int to, uint64_t number) const;

  memory* at_;
};

} // namespace troupe::testing::fake_nccl
