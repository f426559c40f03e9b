# What the set-up downloads, for the dev script: each file with its hash, and
# where it comes from. In this order:
#   1. TROUPE_DOWNLOADS, a folder that somebody filled: for machines without a
#      network. What it lacks is an error; nothing else is asked.
#   2. downloads/ of the cache
#   3. the address in a variable of its own, such as TROUPE_CAF_URL
#   4. Debian's mirror of this machine, or pip's index
# Wherever it comes from, a file with another hash is not used.

caf_version=0.18.7
torch_version=2.11.0
torch_python=3.11 # picks the wheel; its C++ libraries do not need Python
nccl_version=2.28.9
catch2_version=3.7.1

# NAME FILE SHA256 HOW; HOW is the Debian suite and package, or pip's requirement.
downloads='
CAF caf-0.18.7.tar.gz d5c3abe8fd67a729aab1baeece10367637d903ba335f4c79378bcadfbcd34552 debian-source:experimental:actor-framework
CATCH2 libcatch2-dev_3.7.1-0.4~bpo12+1_amd64.deb 1dbb62ed9f177e1cf51e573903cc553241764bd3b6655f5a98889ad361d008dc debian:bookworm-backports:libcatch2-dev
TORCH torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl 7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a pip:torch==2.11.0
CUDA_RUNTIME nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl 7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548 pip:nvidia-cuda-runtime==13.0.96
CUDA_CUPTI nvidia_cuda_cupti-13.0.85-py3-none-manylinux_2_25_x86_64.whl 4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8 pip:nvidia-cuda-cupti==13.0.85
NCCL nvidia_nccl_cu13-2.28.9-py3-none-manylinux_2_18_x86_64.whl e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42 pip:nvidia-nccl-cu13==2.28.9
'

# Prints the path of a download that is there and has its hash.
fetch() { # WORK NAME
  local name file hash how url=TROUPE_$2_URL target
  read -r name file hash how < <(grep "^$2 " <<<"$downloads")
  if [[ ${TROUPE_DOWNLOADS:-} ]]; then
    target=$TROUPE_DOWNLOADS/$file
    [[ -e $target ]] ||
      { problem "TROUPE_DOWNLOADS: $TROUPE_DOWNLOADS has no $file (sha256 $hash)"; return 1; }
    has_hash "$target" "$hash" ||
      { problem "TROUPE_DOWNLOADS: $target has another sha256 than $hash"; return 1; }
    echo "$target"
    return
  fi
  target=$cache/downloads/$file
  if ! has_hash "$target" "$hash" 2>/dev/null; then
    mkdir -p "$cache/downloads" "$1/fetched"
    if [[ ${!url:-} ]]; then
      curl --fail --location --silent --show-error --retry 3 \
        -o "$1/fetched/$file" "${!url}" >&2 ||
        { problem "$url: nothing came from ${!url}"; return 1; }
    else
      "fetch_from_${how%%:*}" "$1/fetched" "$file" "$hash" "${how#*:}" >&2 ||
        { problem "no $file; set $url to an address that has it, or put it into a folder that TROUPE_DOWNLOADS names"; return 1; }
    fi
    has_hash "$1/fetched/$file" "$hash" ||
      { problem "$file came with another sha256 than $hash"; return 1; }
    mv "$1/fetched/$file" "$target"
    rm -rf "$1/fetched"
  fi
  echo "$target"
}

problem() { printf '%s\n' "$*" >&2; }

has_hash() { # FILE SHA256
  [[ -e $1 ]] && sha256sum --status -c - <<<"$2  $1"
}

fetch_from_debian() { # FOLDER FILE SHA256 SUITE:PACKAGE
  private_apt "$1" deb "${4%%:*}" download "${4#*:}"
}

# The source package's file may have another name: its hash tells which it is.
fetch_from_debian-source() { # FOLDER FILE SHA256 SUITE:PACKAGE
  local found
  private_apt "$1" deb-src "${4%%:*}" source --download-only --tar-only "${4#*:}"
  for found in "$1"/*.orig.tar.*; do
    if has_hash "$found" "$3"; then mv "$found" "$1/$2"; fi
  done
}

# pip itself looks at the hash before it keeps anything.
fetch_from_pip() { # FOLDER FILE SHA256 REQUIREMENT
  "$(python_with_pip)" -m pip download --no-deps --no-cache-dir \
    --disable-pip-version-check --progress-bar off --only-binary=:all: \
    --python-version "$torch_python" --require-hashes -d "$1" \
    -r <(echo "$4 --hash=sha256:$3")
}

python_with_pip() {
  local python
  for python in /usr/bin/python3 python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      echo "$python"
      return
    fi
  done
}

# The mirror in this machine's own sources: of the entry for a main suite, not
# of one for security. Reads both of apt's formats.
debian_mirror() {
  local files=(/etc/apt/sources.list /etc/apt/sources.list.d/*.list
    /etc/apt/sources.list.d/*.sources)
  awk '
    function offer(uri, suite) {
      if (suite !~ /security|backports|updates|\/$/ && uri ~ /debian/ && !found) {
        found = uri
      }
    }
    function end_of_stanza() {
      if (types ~ /(^| )deb( |$)/ && enabled !~ /no/) offer(uri, suite)
      types = uri = suite = enabled = ""
    }
    FNR == 1 { end_of_stanza() }
    /^[ \t]*#/ { next }
    /^[ \t]*$/ { end_of_stanza(); next }
    /^deb[ \t]/ {
      sub(/\[[^]]*\]/, "")
      offer($2, $3)
    }
    tolower($1) == "types:" { $1 = ""; types = $0 " " }
    tolower($1) == "uris:" { uri = $2 }
    tolower($1) == "suites:" { suite = $2 }
    tolower($1) == "enabled:" { enabled = tolower($2) }
    END { end_of_stanza(); print found }
  ' $(ls "${files[@]}" 2>/dev/null) /dev/null
}

# apt-get with a private sources list: /etc/apt and the machine's package
# lists stay as they are. Works without root. A mirror may be frozen in time:
# versions are pinned here, and what is signed stays checked.
private_apt() { # FOLDER KIND SUITE COMMAND...
  local work=$1 kind=$2 suite=$3 mirror key=
  local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  shift 3
  mirror=$(debian_mirror)
  if [[ -z $mirror ]]; then
    echo "no Debian mirror found in /etc/apt/sources.list*"
    return 1
  fi
  mkdir -p "$work"/apt/{lists,cache/archives}/partial
  if [[ -e $keyring ]]; then key="[signed-by=$keyring]"; fi
  echo "$kind $key $mirror $suite main" >"$work/apt/sources.list"
  local apt=(apt-get -o "Dir::Etc::SourceList=$work/apt/sources.list"
    -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null
    -o Dir::Etc::PreferencesParts=/dev/null -o Dir::State::Status=/dev/null
    -o "Dir::State::Lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache"
    -o Acquire::Retries=3 -o Acquire::Check-Valid-Until=false)
  if ((EUID == 0)); then apt+=(-o APT::Sandbox::User=root); fi
  (cd "$work" && "${apt[@]}" update && "${apt[@]}" "$@")
}
