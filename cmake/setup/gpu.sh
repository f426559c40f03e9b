# What runs on a machine with a GPU, for the dev script. It is packed here, where the
# compiler is; there, Python and the torch of that machine are enough.

gpu_programs=(trainer_node device_test gpu_network_test)
gpu_most_mib=64 # Of the programs and the source tree together.

# Copies the stripped programs with the libraries that no torch brings.
pack_programs() { # BUILD FOLDER
  local from=$1 folder=$2 name libraries
  rm -rf "$folder/bin" "$folder/lib"
  mkdir -p "$folder/bin" "$folder/lib"
  for name in "${gpu_programs[@]}"; do
    strip -o "$folder/bin/$name" "$from/$name"
    # An RPATH, unlike a RUNPATH, is for what the libraries need, too. Those of
    # torch are found by LD_LIBRARY_PATH.
    patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$folder/bin/$name"
  done
  mapfile -t libraries < <(for name in "${gpu_programs[@]}"; do
    libraries_of_wheel "$from/$name"
  done | sort -u)
  cp -L "${libraries[@]}" "$folder/lib"
}

mebibytes_of() { # PATH...
  du -cm --apparent-size "$@" | tail -n 1 | cut -f 1
}

# Leaves all that a run on a GPU needs beside the source tree.
pack_for_gpu() { # FOLDER
  local folder=$1 size tree
  build release "${gpu_programs[@]}"
  install_packages patchelf
  say "packing for a GPU"
  mkdir -p "$folder"
  pack_programs build/release/bin "$folder"
  git rev-parse HEAD >"$folder/commit"
  size=$(mebibytes_of "$folder")
  tree=$(git ls-files -z | du -cm --apparent-size --files0-from=- | tail -n 1 | cut -f 1)
  if ((size + tree > gpu_most_mib)); then
    die "gpu: $folder has $size MiB and the source tree $tree, more than $gpu_most_mib together"
  fi
  say "$folder: $size MiB, with the source tree $((size + tree)) of at most $gpu_most_mib"
}

# The Python that runs the steps: with a torch, if there is one.
python_for_gpu() {
  local python
  for python in python3 "$cache/$parity_folder/bin/python"; do
    if "$python" -c 'import importlib.util as u; exit(u.find_spec("torch") is None)' 2>/dev/null
    then
      echo "$python"
      return
    fi
  done
  echo python3
}

# Runs what needs a GPU, or with --dry-run shows it.
gpu() { # --pack FOLDER | [--from FOLDER] [gpu.py's own flags]
  local from=build/gpu programs
  if [[ ${1:-} == --pack ]]; then
    (($# == 2)) || die "gpu: --pack needs a folder, and nothing else"
    pack_for_gpu "$2"
    return
  fi
  if [[ ${1:-} == --from ]]; then
    (($# >= 2)) || die "gpu: --from needs a folder"
    [[ -d $2/bin ]] || die "gpu: $2 has no programs; make them with ./dev gpu --pack $2"
    from=$2
    shift 2
  fi
  programs=$from/bin
  if [[ ! -d $programs ]]; then programs=build/release/bin; fi
  exec "$(python_for_gpu)" -B bench/gpu/gpu.py --programs "$programs" "$@"
}
