# The parts that the set-up puts into the cache folder, for the dev script: CAF,
# LibTorch, Catch2 and, on demand, NCCL. cmake/troupe_prefix.cmake finds them.

# How many compilers may run at a time.
jobs() {
  bash cmake/setup/jobs.sh
}

# Runs FUNCTION, which fills "$1"; its output goes to a log. Only when it has
# succeeded does the result appear as FOLDER, with a stamp: so FOLDER is
# complete or absent.
step() { # FOLDER WHAT FUNCTION [ARGUMENT...]
  local folder=$cache/$1 what=$2 log=$cache/logs/$1.log status
  local work=$cache/tmp/$1
  shift 2
  if [[ -e $folder/.complete ]]; then return; fi
  say "$what"
  rm -rf "$work" "$folder"
  mkdir -p "$work" "$cache/logs"
  set +e
  (
    set -eo pipefail
    "$1" "$work" "$folder" "${@:2}"
  ) >"$log" 2>&1 </dev/null
  status=$?
  set -e
  if ((status)); then
    die "failed: $what; last words: $(grep -v '^ *$' "$log" | tail -n 1); log: $log"
  fi
  touch "$work/.complete"
  mv "$work" "$folder"
}

build_caf() { # WORK FOLDER [CXXFLAGS]
  local work=$1 folder=$2 flags=${3:-} tar
  tar=$(fetch "$work" CAF)
  mkdir -p "$work/source" "$work/stage"
  tar -xf "$tar" -C "$work/source" --strip-components=1
  # Compiling many files as one saves time, but two names then clash.
  sed -i 's/\bmax_value\b/max_count/g' \
    "$work/source/libcaf_core/src/binary_serializer.cpp"
  sed -i 's/\bport_of\b/port_in/g' \
    "$work/source/libcaf_io/src/io/network/native_socket.cpp"
  cmake -G Ninja -S "$work/source" -B "$work/build" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=20 \
    -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG $flags" \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DCMAKE_INSTALL_PREFIX="$folder" -DCMAKE_INSTALL_LIBDIR=lib \
    -DBUILD_SHARED_LIBS=OFF -DCAF_ENABLE_EXAMPLES=OFF \
    -DCAF_ENABLE_TESTING=OFF -DCAF_ENABLE_TOOLS=OFF \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=24
  cmake --build "$work/build" -j "$(jobs)"
  DESTDIR=$work/stage cmake --install "$work/build"
  mv "$work/stage$folder"/* "$work/"
  rm -rf "$work"/{source,build,stage}
}

# Unpacks a Debian package, an archive of archives, also without Debian's tools.
unpack_catch2() { # WORK FOLDER
  local package
  package=$(fetch "$1" CATCH2)
  mkdir "$1/deb"
  (cd "$1/deb" && ar x "$package" && tar -xf data.tar.*)
  mv "$1"/deb/usr/* "$1/"
  rm -rf "$1/deb"
}

# LibTorch for the CPU, laid out as in the wheels: the library's RPATH finds
# NVIDIA's two at ../../nvidia/cu13/lib.
unpack_torch() { # WORK FOLDER
  local wheel part
  wheel=$(fetch "$1" TORCH)
  unzip -q "$wheel" 'torch/include/*' torch/lib/libtorch_cpu.so \
    torch/lib/libc10.so 'torch/lib/libgomp*' -d "$1"
  if [[ -z $parity || -e $cache/$parity_folder/.complete ]]; then
    forget_wheel "$wheel"
  fi
  for part in CUDA_RUNTIME CUDA_CUPTI; do
    wheel=$(fetch "$1" "$part")
    unzip -q "$wheel" 'nvidia/*' -d "$1"
  done
}

# Removes the wheel: 530 MB that nobody needs any more.
forget_wheel() { # WHEEL
  rm -f "$cache/downloads/${1##*/}"
}

unpack_nccl() { # WORK FOLDER
  local wheel
  wheel=$(fetch "$1" NCCL)
  unzip -q "$wheel" 'nvidia/*' -d "$1"
}

release_parts=("caf-$caf_version-release" "torch-$torch_version-cpu"
  "catch2-$catch2_version")

setup() { # [--tsan] [--with-cuda] [--parity] [--torchft] [--launchers] [--plan]
  local option part torch tsan= cuda= parity= torchft= launchers= plan= parts=("${release_parts[@]}") absent= packages
  for option; do
    case $option in
      --tsan) tsan=1 parts+=("caf-$caf_version-tsan") ;;
      --with-cuda) cuda=1 parts+=("nccl-$nccl_version") ;;
      --parity) parity=1 parts+=("$parity_folder") ;;
      --torchft) parity=1 torchft=1 parts+=("$parity_folder" "$torchft_folder") ;;
      --launchers) launchers=1 parts+=("$validators_folder") ;;
      --plan) plan=1 ;;
      *) die "setup: unknown option $option (known: --tsan, --with-cuda, --parity, --torchft, --launchers, --plan)" ;;
    esac
  done
  mapfile -t packages < <(packages_of_system)
  if [[ $parity ]]; then packages+=($(wheel_packages)); fi
  if [[ $launchers ]]; then packages+=($(launcher_packages)); fi
  if [[ $plan ]]; then
    show_plan
    return
  fi
  for part in "${parts[@]}"; do
    if [[ ! -e $cache/$part/.complete ]]; then absent=1; fi
  done
  if [[ -z $absent && ($family == none ||
    -z $(missing_packages "${packages[@]}")) ]]; then
    if [[ $cuda ]]; then link_cuda; fi
    return
  fi

  say "set-up into $cache"
  mkdir -p "$cache"
  exec 9>"$cache/.lock"
  if ! flock -n 9; then
    say "another set-up is running: waiting for it"
    flock 9
  fi
  rm -rf "$cache/tmp" # what a set-up that was cut off left behind
  warn_of_system
  install_packages "${packages[@]}"
  if [[ -z $(python_with_pip) ]]; then
    install_packages $(package_of pip)
  fi
  # LibTorch waits for the network while CAF waits for the processor. Should CAF
  # fail, the download goes on and keeps the lock: the next set-up waits for it.
  step "torch-$torch_version-cpu" \
    "LibTorch $torch_version for the CPU: a download of 550 MB" unpack_torch &
  torch=$!
  step "catch2-$catch2_version" "Catch2 $catch2_version" unpack_catch2
  step "caf-$caf_version-release" \
    "CAF $caf_version: compiling for a few minutes" build_caf
  wait "$torch" || die "set-up: LibTorch is missing; the reason is above"
  if [[ $tsan ]]; then
    step "caf-$caf_version-tsan" \
      "CAF $caf_version for ThreadSanitizer: compiling for a few minutes" \
      build_caf "-O1 -g1 -fsanitize=thread"
  fi
  if [[ $cuda ]]; then
    step "nccl-$nccl_version" "NCCL $nccl_version" unpack_nccl
    link_cuda
  fi
  if [[ $parity ]]; then
    step "$parity_folder" "Python with torch $torch_version and torchvision" \
      unpack_parity
  fi
  if [[ $torchft ]]; then
    step "$torchft_folder" "torchft ${torchft_folder#*-}" unpack_torchft
  fi
  if [[ $launchers ]]; then
    step "$validators_folder" "a Python that reads manifests of Kubernetes" \
      unpack_validators
  fi
  exec 9>&-
  say "set-up done"
}

warn_of_system() {
  local old
  if [[ $family == none ]]; then
    say "$system is not known here: what is installed is used (CMake says what it lacks)"
  elif [[ -z $tried ]]; then
    say "$system: the names of its packages are known, but nobody has tried them"
  fi
  old=$(too_old_on_system)
  if [[ $old ]]; then
    say "$system is too old for $old: bring newer ones with CMAKE_PREFIX_PATH and PATH"
  fi
}

# The first folder, from FOLDER upwards, that others may not enter; nothing if
# there is none.
closed_to_others() { # FOLDER
  local folder
  folder=$(readlink -m "$1")
  while [[ $folder != / ]]; do
    if [[ -e $folder ]] && ! ((8#$(stat -c %a "$folder") & 1)); then
      echo "$folder"
      return
    fi
    folder=$(dirname "$folder")
  done
}

# Programs load LibTorch from the cache folder. So the user has to know when
# others can reach the build but not the cache, such as that of root.
warn_of_closed_cache() { # BUILD
  local closed
  closed=$(closed_to_others "$cache")
  if [[ $closed && -z $(closed_to_others "$1") ]]; then
    say "only $(id -un) can run what is in $1: it loads libraries from $cache, and" \
      "$closed is closed to others. To build for all users:" \
      "rm -r $1; TROUPE_CACHE=/opt/troupe ./dev build ${1##*/}"
  fi
}

# What a set-up would do, one fact a line; changes nothing.
show_plan() {
  local name file hash how url old
  echo "system     $system${tried:+, tried by CI}"
  echo "installer  $family"
  echo "packages   ${packages[*]}"
  old=$(too_old_on_system)
  if [[ $old ]]; then echo "too old    $old"; fi
  while read -r name file hash how; do
    if [[ -z $name || ($name == NCCL && -z $cuda) ]]; then continue; fi
    if [[ -z $parity && " ${parity_only[*]} " == *" $name "* &&
      (-z $launchers || $name != TYPING_EXTENSIONS) ]]; then continue; fi
    if [[ -z $torchft && " ${torchft_only[*]} " == *" $name "* ]]; then continue; fi
    if [[ -z $launchers && " ${validators_only[*]} " == *" $name "* ]]; then continue; fi
    url=TROUPE_${name}_URL
    if [[ ${TROUPE_DOWNLOADS:-} ]]; then how=$TROUPE_DOWNLOADS; fi
    echo "download   $file"
    echo "  sha256   $hash"
    echo "  from     ${!url:-$how}"
  done <<<"$downloads"
  echo "cache      $cache"
  echo "jobs       $(jobs)"
}
