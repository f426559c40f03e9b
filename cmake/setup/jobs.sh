#!/usr/bin/env bash
# Prints how many compilers may run at a time: one for each core that this
# process may use, but no more than fit into memory. A translation unit with
# LibTorch takes up to 2 GiB. TROUPE_JOBS overrules.
set -euo pipefail

if [[ ${TROUPE_JOBS:-} ]]; then
  [[ $TROUPE_JOBS =~ ^[1-9][0-9]*$ ]] || {
    echo "TROUPE_JOBS: '$TROUPE_JOBS' is not a number above 0" >&2
    exit 1
  }
  echo "$TROUPE_JOBS"
  exit
fi

cores=$(nproc) # heeds affinity
kib=$(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo)

# A container's limits.
groups=/sys/fs/cgroup
if read -r quota period <"$groups/cpu.max" && [[ $quota != max ]]; then
  allowed=$(((quota + period - 1) / period))
  if ((allowed < cores)); then cores=$allowed; fi
fi 2>/dev/null
if read -r limit <"$groups/memory.max" && [[ $limit != max ]]; then
  allowed=$((limit / 1024))
  if ((allowed < kib)); then kib=$allowed; fi
fi 2>/dev/null

jobs=$((kib / (2 * 1024 * 1024)))
if ((jobs > cores)); then jobs=$cores; fi
if ((jobs < 1)); then jobs=1; fi
echo "$jobs"
