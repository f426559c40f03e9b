#pragma once
// Bugs on purpose, to see whether the checks of a simulated run find them. In
// the program there are none: only a test that compiles these libraries once
// more, with TROUPE_MUTATIONS, can switch one on. To be used in .cpp files
// only, so that both builds have the same classes.

#include <cstdint>

namespace troupe {

enum class bug : uint8_t {
  none,
  deduplication_off,       ///< A push that arrives again is a new one.
  stale_incarnation,       ///< An earlier life of a worker may push.
  earlier_server,          ///< What an earlier life of the server was sent.
  life_not_counted,        ///< A rank that returns has the same incarnation.
  staleness_off_by_one,    ///< ssp lets workers be s + 1 clocks ahead.
  joiner_at_zero,          ///< ssp lets a joiner begin at clock 0.
  late_applied,            ///< sync, backup: gradients of older versions count.
  barrier_stays,           ///< A step waits for one who has left.
  lease_kept_on_leave,     ///< The work of a lost worker is lost.
  lease_kept_on_drop,      ///< That of a dropped gradient is.
  lease_granted_twice,     ///< Now and then two workers get the same samples.
  lease_settled_unapplied, ///< That of a dropped gradient counts as applied.
  outstanding_forgotten,   ///< A checkpoint takes leases that are out for done.
  update_lost,             ///< Acknowledged, but left out of the sum.
  version_skipped,         ///< Every eighth update makes two versions.
  gives_up_at_once,        ///< Who is turned away does not come back.
  part_of_another          ///< A rank gets samples of the next one's part.
};

inline constexpr auto last_bug = bug::part_of_another;

#ifdef TROUPE_MUTATIONS

inline bug mutation_now = bug::none;

inline bool mutation(bug x) {
  return mutation_now == x;
}

#else

consteval bool mutation(bug) {
  return false;
}

#endif

} // namespace troupe
