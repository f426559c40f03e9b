"""What came of a run, by the log of its workers (job.py)."""

import collections

import job


def longest_pause(times, begin, end):
    """The longest time without one of `times`, from the last before `begin` to `end`."""
    before = max((x for x in times if x <= begin), default=begin)
    points = [before, *(x for x in times if begin < x < end), end]
    return max(later - earlier for earlier, later in zip(points, points[1:]))


def pauses(log, kills, end):
    """For each kill, how long the steps of the others stood still until the next one."""
    found = []
    for number, (at, slot) in enumerate(kills):
        until = kills[number + 1][0] if number + 1 < len(kills) else end
        times = sorted(x.ended for x in log.steps if x.members and x.slot != slot)
        found.append(longest_pause(times, at, until))
    return found


def returns(log, kills, end):
    """For each kill, the seconds until the weights had a gradient of a process that was
    started later for the same slot. Where none came before the run ended, the seconds
    until that end: the true time is longer."""
    began = {x.pid: x.time for x in log.starts}
    found = []
    for at, slot in kills:
        times = [
            x.ended
            for x in log.steps
            if x.members and x.counts and x.slot == slot and began[x.pid] > at
        ]
        found.append(min(times, default=end) - at)
    return found


# -- which samples are in the weights ------------------------------------------


def of_torchrun(log):
    """The steps behind which no later start of the same rank went back. A step that one
    rank has made has the samples of all, since its sum has."""
    kept = []
    for step in log.steps:
        later = [x for x in log.starts if x.slot == step.slot and x.time > step.began]
        if all(step.number <= x.step for x in later):
            kept.append(step)
    made = {x.number for x in kept if x.members}
    kept = [x for x in kept if x.number in made]
    last = max((x.epoch for x in kept), default=0)
    return kept, {(epoch, i) for epoch in range(last) for i in range(job.SAMPLES)}


def of_torchft(log):
    """A step that one replica has made has the samples of the last gradient of each that
    took part. What a replica leaves behind in its order does not come again."""
    tries = collections.defaultdict(list)
    for step in log.steps:
        tries[step.number].append(step)
    kept = []
    for same in tries.values():
        made = [x for x in same if x.members]
        if not made:
            continue
        until = max(x.ended for x in made)
        last = {x.slot: x for x in same if x.counts and x.began <= until}
        newest = sorted(last.values(), key=lambda x: x.began)
        kept += newest[-max(x.members for x in made) :]
    newest_of = {x.slot: x for x in log.steps}
    pending = {x for step in newest_of.values() for x in step.samples()}
    due = {x for step in log.steps for x in step.samples()} - pending
    return kept, due


def account(kept, due):
    """How many samples are in the weights, how many should be and are not, and how many
    are there once too often."""
    times = collections.Counter(x for step in kept for x in step.samples())
    return {
        "applied": sum(times.values()),
        "lost": len(due - set(times)),
        "doubled": sum(times.values()) - len(times),
    }


def outcome(log, kills, begin, end, kept_and_due):
    """
    Args:
        kills: The time and the slot of each.
        begin: When all workers had made a step.
        end: When the run was told to stop.
        kept_and_due: Tells both from the log; None if something else knows them.
    """
    found = {
        "seconds": end - begin,
        "outside": job.BATCH
        * sum(bool(x.members and x.counts) and not begin < x.ended <= end for x in log.steps),
        "computed": job.BATCH * len(log.steps),
        "kills": len(kills),
        "pauses": pauses(log, kills, end),
        "returns": returns(log, kills, end),
    }
    if kept_and_due:
        found |= account(*kept_and_due(log))
    return found
