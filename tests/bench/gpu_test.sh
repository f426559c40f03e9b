#!/usr/bin/env bash
# Tests of ./dev gpu where there is no GPU: what it packs and what a dry run says; and,
# with a fake device, that every step works to its end. Nothing is downloaded.
# Usage: gpu_test.sh ROOT BUILD dry-run
#        gpu_test.sh ROOT BUILD rehearsal FAKE PYTHON
set -euo pipefail
cd "$1"
build=$2

. tests/support/checks.sh

says() { # STATUS PATTERN COMMAND...
  local status=$1 pattern=$2 output found=0
  shift 2
  output=$("$@" 2>&1) || found=$?
  if ((found != status)) || ! grep -qE -- "$pattern" <<<"$output"; then
    echo "status $found instead of $status, or no '$pattern' in:"
    echo "$output"
    return 1
  fi
}

pack() {
  cache=$scratch/cache bash -c '
    set -euo pipefail
    for part in packages wheel gpu; do . cmake/setup/$part.sh; done
    pack_programs "$1/bin" "$2"' bash "$build" "$scratch/pack"
}

dry_run() {
  ./dev gpu --from "$scratch/pack" --dry-run "$@"
}

# -- packed programs and a dry run -----------------------------------------------

try_dry_run() {
  local torch most
  if command -v patchelf >/dev/null; then
    check "the programs are packed" pack
    check "they are small" test "$(du -cm "$scratch/pack" | tail -n 1 | cut -f 1)" -lt 48
    check "they find the libraries that they are packed with" \
      says 0 "=> $scratch/pack/bin/../lib/libprotobuf" ldd "$scratch/pack/bin/trainer_node"
  else
    echo "patchelf is not installed: the programs are not packed, but used where they lie"
    mkdir "$scratch/pack"
    ln -s "$build/bin" "$scratch/pack/bin"
  fi
  check "a dry run has a plan with a limit for each step" \
    says 0 '^  resnet50 +[0-9]+ s  trainer_node, Python' dry_run
  check "its time is at most eight minutes" says 0 '^plan +[0-9]+ steps, 450 s at most' dry_run
  # It ends at the first call that needs a device, with the program's own line, or here
  # is a GPU.
  check "it opens the program" \
    says 0 '^devices +(no GPU can be used|a GPU needs LibTorch|NCCL: |cannot open )' dry_run
  if ! command -v nvidia-smi >/dev/null; then
    check "an absent driver is named" says 0 '^absent +a driver' dry_run
  fi
  check "an absent CUDA part is named" \
    says 0 '^absent +(torch: .* has none|/nowhere/libtorch_cuda.so: )' \
    env TROUPE_CUDA_LIBRARY=/nowhere/libtorch_cuda.so ./dev gpu --from "$scratch/pack" --dry-run
  mkdir -p "$scratch/python/torch/lib"
  printf "__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n" \
    >"$scratch/python/torch/version.py"
  touch "$scratch/python/torch/__init__.py" # A torch without its CUDA part.
  check "the torch of the Python is found" \
    says 0 '^torch +2.11.0\+cu130, for CUDA 13.0' \
    env PYTHONPATH="$scratch/python" ./dev gpu --from "$scratch/pack" --dry-run --python python3
  check "a folder without programs is refused in a line" \
    says 1 '^dev: gpu: /nowhere has no programs' ./dev gpu --from /nowhere --dry-run
  mkdir -p "$scratch/empty/bin"
  check "a folder without trainer_node is refused in a line" \
    says 1 '^./dev gpu: there is no .*/trainer_node; make it with' \
    ./dev gpu --from "$scratch/empty"
  check "a step that is not there is refused in a line" \
    says 2 'no such step: lenet; there are: open, gradients' dry_run --only lenet
  check "a Python that is not there is refused in a line" \
    says 2 'nowhere/python: there is no such program' dry_run --python /nowhere/python
}

# -- all steps over a fake device ----------------------------------------------------

# Each line: a row that must be there, with its status.
all_rows() { # JSON
  python3 - "$1" <<'END'
import json, sys
found = json.load(open(sys.argv[1]))
for key in ("device", "driver", "torch", "cuda", "nccl", "commit", "began", "rehearsed"):
    assert key in found, key
rows = {x["name"]: x for x in found["rows"]}
assert len(rows) == len(found["rows"]), "a name stands twice"
wanted = """open/devices open/one_too_many gradients/device_test train/lenet/loss
    copies/pageable_to_device/4096 copies/device_to_device/65536
    resnet50/plain resnet50/native resnet50/python resnet18/plain resnet18/python
    server/step/on_cpu server/step/on_cuda:0 server/turn/native two_workers/sync two_workers/async
    faults/nan faults/kill_9/auto faults/join_and_leave"""
wrong = [f"{name}: {rows.get(name, {}).get('line', 'no such row')}" for name in wanted.split()
         if rows.get(name, {}).get("status") != "ok"]
# These need the real NCCL.
for name in ("nccl", "nccl/processes"):
    if rows[name]["status"] not in ("ok", "failed", "left out") or not rows[name]["line"]:
        wrong.append(f"{name}: {rows[name]}")
for x in found["rows"]:
    if x["value"] is not None and not x["unit"] and x["name"] != "train/lenet/loss":
        wrong.append(f"{x['name']}: no unit")
sys.exit("\n".join(wrong) or 0)
END
}

rehearse() { # FAKE PYTHON [FLAG...]
  python3 -B bench/gpu/gpu.py --programs "$build/bin" --rehearse "$1" --python "$2" \
    --json "$scratch/found.json" --limit 1000 "${@:3}"
}

case $3 in
  dry-run) try_dry_run ;;
  rehearsal)
    # NCCL is not there, which is a row and no reason to stop.
    rehearse "$4" "$5" >"$scratch/table" 2>&1 || true
    cat "$scratch/table"
    check "every step over the fake device has its figures" all_rows "$scratch/found.json"
    export FAKE_CUDA_DEVICES=0
    check "without a device the other steps are left out" \
      says 1 '^  train .* LEFT OUT: the device cannot be used' \
      rehearse "$4" "$5" --only open train
    unset FAKE_CUDA_DEVICES
    check "a step that is not over in time is a row" \
      says 1 '^  train .* (TIMED OUT: |LEFT OUT: no time was left)' \
      rehearse "$4" "$5" --limit 0.5 --only train
    ;;
esac

if ((failures)); then
  echo "$failures failed"
  exit 1
fi
