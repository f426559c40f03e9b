# LibTorch's CUDA part, for the dev script: that of the PyTorch which is installed. The
# program looks for it beside its own LibTorch. Nothing is downloaded.

# The folder of python3's torch; nothing if it has none.
folder_of_torch() {
  python3 -c 'import importlib.util as u
x = u.find_spec("torch")
print(x.submodule_search_locations[0] if x else "")' 2>/dev/null || true
}

# Links it beside the program's LibTorch, and says in a line which one, or why none.
link_cuda() {
  local link=$cache/torch-$torch_version-cpu/torch/lib/libtorch_cuda.so
  local advice="install torch==$torch_version for CUDA there, or name its libtorch_cuda.so with TROUPE_CUDA_LIBRARY"
  local folder library release
  rm -f "$link"
  folder=$(folder_of_torch)
  if [[ -z $folder ]]; then
    say "GPUs: python3 has no PyTorch: $advice"
    return
  fi
  library=$folder/lib/libtorch_cuda.so
  release=$(sed -n "s/^__version__ = '\(.*\)'.*/\1/p" "$folder/version.py")
  if [[ ! -e $library ]]; then
    say "GPUs: $folder is PyTorch $release without CUDA: $advice"
  elif [[ $release != "${torch_version%.*}".* ]]; then
    say "GPUs: $folder is PyTorch $release, and the program is built with $torch_version: $advice"
  else
    ln -s "$library" "$link"
    say "GPUs: $library of PyTorch $release"
  fi
}
