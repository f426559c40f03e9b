#!/usr/bin/env bash
# Tests of the set-up (cmake/setup): what it would install and from where, how
# many compilers it lets run, and that nothing with another hash is used. No
# network, nothing installed.
# Usage: setup_test.sh ROOT
set -euo pipefail
cd "$1"

. tests/support/checks.sh

plan_on() { # ID VERSION NAME [SETTING...]
  printf 'ID=%s\nVERSION_ID="%s"\nNAME="%s"\n' "$1" "$2" "$3" >"$scratch/os-release"
  env TROUPE_OS_RELEASE="$scratch/os-release" "${@:4}" ./dev setup --plan
}

says() { # PATTERN COMMAND...
  local pattern=$1 output
  shift
  output=$("$@" 2>&1) || true
  grep -qE -- "$pattern" <<<"$output" || {
    echo "no '$pattern' in:"
    echo "$output"
    return 1
  }
}

# A download of our own, in place of the real ones.
echo "the right bytes" >"$scratch/right"
hash=$(sha256sum <"$scratch/right" | cut -d ' ' -f 1)

fetch_one() { # [SETTING...]
  env "$@" HASH="$hash" bash -c '
    set -euo pipefail
    cache='"$scratch"'/cache
    die() { echo "$*"; exit 1; }
    . cmake/setup/packages.sh
    . cmake/setup/downloads.sh
    downloads="ONE one.bin $HASH pip:no-such-package==0"
    python_with_pip() { echo false; }
    cat "$(fetch '"$scratch"'/work ONE)"'
}

fresh() { # COMMAND...
  rm -rf "$scratch/cache" "$scratch/work"
  "$@"
}

check "Debian 12 is what CI runs on" \
  says '^system +Debian.* 12, tried by CI' plan_on debian 12 "Debian GNU/Linux"
check "Ubuntu 24.04 has Debian's names" \
  says '^packages .*libprotobuf-dev' plan_on ubuntu 24.04 Ubuntu
check "nobody says that Ubuntu was tried" \
  says '^system +Ubuntu 24.04$' plan_on ubuntu 24.04 Ubuntu
check "Ubuntu 22.04 is said to be too old for some" \
  says '^too old .*protobuf' plan_on ubuntu 22.04 Ubuntu
check "Fedora has names and an installer of its own" \
  says '^packages .*protobuf-devel' plan_on fedora 42 "Fedora Linux"
check "elsewhere what is installed is used" \
  says '^installer +none' plan_on arch "" "Arch Linux"
check "a plan names the address that somebody set" \
  says '^  from +file:///there' plan_on debian 12 Debian TROUPE_TORCH_URL=file:///there
check "NCCL is part of a plan for CUDA alone" \
  bash -c './dev setup --plan --with-cuda | grep -q nccl && ! ./dev setup --plan | grep -q nccl'

check "torchft is part of a plan for it alone" \
  bash -c './dev setup --plan --torchft | grep -q torchft && ! ./dev setup --plan | grep -q torchft'
check "launchers are part of a plan for them alone" \
  bash -c './dev setup --plan --launchers | grep -q slurmctld && ! ./dev setup --plan | grep -q slurmctld'

# A python3 whose torch has this release, and LibTorch's CUDA part if it is to.
python_with_torch() { # RELEASE [CUDA-PART]
  rm -rf "$scratch"/{python,torch,cache}
  mkdir -p "$scratch"/{python,torch/lib,cache/torch-2.11.0-cpu/torch/lib}
  echo "__version__ = '$1'" >"$scratch/torch/version.py"
  if [[ ${2:-} ]]; then echo "$2" >"$scratch/torch/lib/libtorch_cuda.so"; fi
  printf '#!/bin/sh\necho %s\n' "$scratch/torch" >"$scratch/python/python3"
  chmod +x "$scratch/python/python3"
}
link_cuda_of() { # PATTERN
  says "$1" env cache="$scratch/cache" PATH="$scratch/python:$PATH" bash -c '
    set -euo pipefail
    say() { echo "$*"; }
    . cmake/setup/downloads.sh
    . cmake/setup/cuda.sh
    link_cuda'
}
linked=$scratch/cache/torch-2.11.0-cpu/torch/lib/libtorch_cuda.so

python_with_torch 2.11.0+cu130 "the CUDA part"
check "LibTorch's CUDA part is that of the PyTorch that is installed" \
  link_cuda_of "^GPUs: $scratch/torch/lib/libtorch_cuda.so of PyTorch 2.11.0\+cu130$"
check "and lies where the program looks for it" grep -q "the CUDA part" "$linked"
python_with_torch 2.9.1+cu128 "another one"
check "that of another release is a line with both" \
  link_cuda_of "is PyTorch 2.9.1\+cu128, and the program is built with 2.11.0: install torch==2.11.0"
check "and is not used" test ! -e "$linked"
python_with_torch 2.11.0+cpu
check "PyTorch for the CPU is a line" link_cuda_of "is PyTorch 2.11.0\+cpu without CUDA: install"
printf '#!/bin/sh\necho\n' >"$scratch/python/python3"
check "no PyTorch is a line" link_cuda_of "^GPUs: python3 has no PyTorch: install torch==2.11.0"

check "an address of one's own" \
  fresh says "the right bytes" fetch_one "TROUPE_ONE_URL=file://$scratch/right"
check "other bytes are not used" \
  fresh says "another sha256" fetch_one "TROUPE_ONE_URL=file://$(readlink -f dev)"
check "and not kept" test ! -e "$scratch/cache/downloads/one.bin"
check "an address that has nothing" \
  fresh says "TROUPE_ONE_URL: nothing came" fetch_one "TROUPE_ONE_URL=file://$scratch/none"
check "no source: the line says what to set" \
  fresh says "set TROUPE_ONE_URL .* or .* TROUPE_DOWNLOADS" fetch_one

mkdir "$scratch/brought"
check "a folder that lacks a file is told so" \
  fresh says "has no one.bin \(sha256 $hash\)" fetch_one "TROUPE_DOWNLOADS=$scratch/brought"
cp dev "$scratch/brought/one.bin"
check "a folder with other bytes is told so" \
  fresh says "one.bin has another sha256" fetch_one "TROUPE_DOWNLOADS=$scratch/brought"
cp "$scratch/right" "$scratch/brought/one.bin"
check "a folder that somebody filled" \
  fresh says "the right bytes" fetch_one "TROUPE_DOWNLOADS=$scratch/brought"

warn_of() { # CACHE BUILD
  cache=$1 bash -c '
    set -euo pipefail
    cd '"$PWD"'
    say() { echo "$*"; }
    . cmake/setup/downloads.sh
    . cmake/setup/parts.sh
    warn_of_closed_cache "$1"' bash "$2"
}
open_to_others() {
  [[ $(cache=$1 bash -c '. cmake/setup/parts.sh; closed_to_others "$cache"') == "" ]]
}
silent() {
  local output
  output=$("$@" 2>&1) && [[ -z $output ]] || {
    echo "says: $output"
    return 1
  }
}

mkdir -p "$scratch"/{home/.cache/troupe,project/build}
chmod 755 "$scratch" "$scratch/project"{,/build}
chmod 700 "$scratch/home"
if open_to_others "$scratch"; then
  check "a cache that others cannot enter" \
    says "only .* can run what is in $scratch/project/build: .*$scratch/home is closed to others.* TROUPE_CACHE=" \
    warn_of "$scratch/home/.cache/troupe" "$scratch/project/build"
  check "one that is not there yet" \
    says "$scratch/home is closed" warn_of "$scratch/home/.cache/new" "$scratch/project/build"
  check "a build that others cannot enter either" \
    silent warn_of "$scratch/home/.cache/troupe" "$scratch/home"
  check "a cache for all" silent warn_of "$scratch/project/cache" "$scratch/project/build"
fi

check "as many compilers as somebody says" \
  says '^7$' env TROUPE_JOBS=7 bash cmake/setup/jobs.sh
check "a number that is none" \
  says "TROUPE_JOBS: 'many' is not a number" env TROUPE_JOBS=many bash cmake/setup/jobs.sh
check "one compiler on one core" \
  says '^1$' taskset -c "$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')" \
  env -u TROUPE_JOBS bash cmake/setup/jobs.sh

if ((failures)); then
  echo "$failures failed"
  exit 1
fi
