#pragma once
// Deliberate bugs, to see whether the checks of a simulated run find them. The
// program has none of them: only a test that compiles these libraries a second
// time, with TROUPE_MUTATIONS, can switch one on.
//
// To be used in .cpp files only, so that both builds have the same classes. One
// global setting, chosen before the run; not thread-safe.

#include <cstdint>

namespace troupe {

enum class bug : uint8_t {
  none,
  deduplication_off,       ///< A repeated push counts as a new one.
  stale_incarnation,       ///< An earlier life of a worker may push.
  earlier_server,          ///< Messages to an earlier server life count.
  life_not_counted,        ///< A rank that returns keeps its life.
  staleness_off_by_one,    ///< ssp lets workers be s + 1 clocks ahead.
  joiner_at_zero,          ///< ssp lets a joiner begin at clock 0.
  late_applied,            ///< sync, backup: gradients of older versions count.
  barrier_stays,           ///< A step waits for a worker that has left.
  lease_kept_on_leave,     ///< Leases of a lost worker do not return.
  lease_kept_on_drop,      ///< The lease of a dropped gradient does not.
  lease_granted_twice,     ///< Sometimes two workers get the same samples.
  lease_settled_unapplied, ///< A dropped gradient's lease counts as applied.
  outstanding_forgotten,   ///< A checkpoint counts open leases as settled.
  update_lost,             ///< Acknowledged, but left out of the sum.
  version_skipped,         ///< Every eighth update makes two versions.
  gives_up_at_once,        ///< A worker that is refused never tries again.
  part_of_another,         ///< A rank gets samples of the next rank's part.
  own_norm_counts,         ///< A worker's own norms are among the others'.
  pause_ignored,           ///< Steps are made with fewer than MIN workers.
  held_forgotten, ///< A change of the policy forgets gradients that are held.
  fragment_after_drop ///< A dropped gradient's worker gets a fragment alone.
};

inline constexpr auto last_bug = bug::fragment_after_drop;

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
