# A Python with torch and torchvision, for the dev script: tests hold Troupe's
# networks, data and weights files to theirs. Nothing that Troupe's users run
# needs it. It lies in the cache and changes no Python of the system.
#
# The wheel of torch is the one that LibTorch comes from. Its Python half loads
# NVIDIA's libraries, 2.7 GB, even where there is no GPU; here libraries with the
# same names and nothing behind them stand in their place.

parity_folder=parity-$torch_version

downloads+='
TORCHVISION torchvision-0.26.0-cp311-cp311-manylinux_2_28_x86_64.whl fd10b5f994c210f4f6d6761cf686f82d748554adf486cb0979770c3252868c8f pip:torchvision==0.26.0
NUMPY numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl 89cd468399cfd2504718f0ba50e410dca55a170b61a02ad92bb18c8a65186e93 pip:numpy==2.4.6
PILLOW pillow-13.0.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl a625df9a2a5597fa5e5266e01aefc82604bb85d291e3547981e863560d75da6c pip:pillow==13.0.0
TYPING_EXTENSIONS typing_extensions-4.16.0-py3-none-any.whl 481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8 pip:typing_extensions==4.16.0
FILELOCK filelock-4.2.12-py3-none-any.whl 21decfec02f116ed4c954433cdb31f28c3b346b784543177b6d7059da2702ee9 pip:filelock==4.2.12
SYMPY sympy-1.14.0-py3-none-any.whl e091cc3e99d2141a0ba2847328f5479b05d94a6635cb96148ccb3f34671bd8f5 pip:sympy==1.14.0
MPMATH mpmath-1.3.0-py3-none-any.whl a0b2b9fe80bbcd81a6647ff13108738cfb482d481d826cc0e02f5b35e5c88d2c pip:mpmath==1.3.0
NETWORKX networkx-3.6.1-py3-none-any.whl d47fbf302e7d9cbbb9e2555a0d267983d2aa476bac30e90dfbe5669bd57f3762 pip:networkx==3.6.1
JINJA2 jinja2-3.1.6-py3-none-any.whl 85ece4451f492d0c13c5dd7c13a64681a86afae63a5f347908daf103ce6d2f67 pip:jinja2==3.1.6
MARKUPSAFE markupsafe-3.0.4-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl 6da83a088f8ef93b2d483a8232a4dbf4d69d3d8496b568a03c56becac43e1808 pip:markupsafe==3.0.4
FSSPEC fsspec-2026.9.0-py3-none-any.whl 8dd6e646e99ea382bd85f97a45e6b526a442d79423a7dc673f1e2756d05fcb5f pip:fsspec==2026.9.0
'

parity_only=(TORCHVISION NUMPY PILLOW TYPING_EXTENSIONS FILELOCK SYMPY MPMATH
  NETWORKX JINJA2 MARKUPSAFE FSSPEC)

# Each goes into the folder of packages as it is.
parity_wheels=(TORCH "${parity_only[@]}" CUDA_RUNTIME CUDA_CUPTI)

# The Python that the wheels are for; nothing if this machine has none.
python_for_parity() {
  local python
  for python in "/usr/bin/python$torch_python" "python$torch_python"; do
    if "$python" -c 'import venv' >/dev/null 2>&1; then
      command -v "$python"
      return
    fi
  done
}

unpack_parity() { # WORK FOLDER
  local work=$1 python site name wheel
  python=$(python_for_parity)
  [[ $python ]] || {
    problem "there is no Python $torch_python here, for which the wheels are"
    return 1
  }
  "$python" -m venv --without-pip "$work"
  site=$work/lib/python$torch_python/site-packages
  for name in "${parity_wheels[@]}"; do
    wheel=$(fetch "$work" "$name")
    unzip -q -o "$wheel" -d "$site" -x 'torch/include/*' '*.dist-info/*'
  done
  chmod +x "$site/torch/bin/torch_shm_manager"
  put_empty_libraries "$site/torch/lib"
  # Where Python may not write its bytecode, each start would compile torch anew.
  "$work/bin/python" -m compileall -q -j 0 "$site"
  "$work/bin/python" -c 'import torch, torchvision'
  forget_wheel "$(fetch "$work" TORCH)"
}

# Makes those of NVIDIA's libraries that torch names and that are not here. They
# define the names that torch looks for, each as a function that ends the
# process.
put_empty_libraries() { # FOLDER
  local folder=$1 scratch name
  scratch=$(mktemp -d)
  nm -D --undefined-only "$folder"/*.so | awk '$1 == "U" { print $2 }' |
    sort -u >"$scratch/wanted"
  while read -r name; do
    if [[ ! -e $folder/$name ]]; then
      empty_library "$folder" "$name" "$scratch"
    fi
  done < <(for library in "$folder"/*.so; do
    readelf -dW "$library"
  done | sed -n 's/.*(NEEDED).*\[\(lib\(cu\|nv\|nccl\).*\)\]/\1/p' | sort -u |
    grep -v -e '^libcudart' -e '^libcupti')
  rm -rf "$scratch"
}

empty_library() { # FOLDER NAME SCRATCH
  local folder=$1 name=$2 scratch=$3 version=$2 stem prefix symbol versions=()
  stem=${name#lib} stem=${stem%%.so*}
  prefix="^$stem"
  case $stem in
    nvshmem_host) version=NVSHMEM prefix=^nvshmem ;;
    cuda) prefix='^cu[A-Z]' ;;
  esac
  {
    echo .text
    {
      sed -n "s/@$version\$//p" "$scratch/wanted"
      grep -v @ "$scratch/wanted" | grep -i "$prefix" || true
    } | sort -u | while read -r symbol; do
      printf '.globl %s\n.type %s, @function\n%s:\n' "$symbol" "$symbol" "$symbol"
    done
    echo ud2
    echo '.section .note.GNU-stack,"",@progbits'
  } >"$scratch/empty.s"
  if grep -q "@$version\$" "$scratch/wanted"; then
    printf '%s { global: *; };\n' "$version" >"$scratch/versions"
    versions=(-Wl,--version-script,"$scratch/versions")
  fi
  gcc -shared -nostdlib -o "$folder/$name" -Wl,-soname,"$name" \
    "${versions[@]}" "$scratch/empty.s"
}
