# Packages of the system, for the dev script: what the build needs of them,
# their names on the distributions that we know, and how they are installed. CI
# runs on Debian 12; the names on the others come from their package lists, and
# nobody has tried them.

# Sets system (the name to show), family (apt, dnf or none) and tried.
read_system() {
  local file=${TROUPE_OS_RELEASE:-/etc/os-release} id= version= name=
  if [[ -r $file ]]; then
    id=$(. "$file" && echo "${ID:-}")
    version=$(. "$file" && echo "${VERSION_ID:-}")
    name=$(. "$file" && echo "${NAME:-}")
  fi
  system="${name:-an unknown system}${version:+ $version}" tried=
  case $id-$version in
    debian-12) family=apt tried=1 ;;
    debian-* | ubuntu-*) family=apt ;;
    fedora-*) family=dnf ;;
    *) family=none ;;
  esac
}

# What the build needs, one name a line.
packages_of_system() {
  local common=(ca-certificates ccache cmake mold ninja-build python3 unzip)
  case $family in
    apt)
      printf '%s\n' "${common[@]}" build-essential curl gnuplot-nox \
        iproute2 libcurl4-openssl-dev libjpeg-dev libmimalloc-dev libpng-dev \
        libprotobuf-dev libssl-dev nftables nlohmann-json3-dev pkg-config \
        protobuf-compiler zlib1g-dev
      ;;
    dnf)
      printf '%s\n' "${common[@]}" curl gcc-c++ gnuplot-minimal iproute \
        json-devel libcurl-devel libjpeg-turbo-devel libpng-devel \
        mimalloc-devel nftables openssl-devel pkgconf-pkg-config \
        protobuf-compiler protobuf-devel zlib-devel
      ;;
  esac
}

# The name of a tool's package that only some verbs need.
package_of() { # pip | clang | clang-format | clang-tidy
  case $family-$1 in
    *-pip) echo python3-pip ;;
    apt-clang) printf '%s\n' clang libclang-rt-dev ;;
    dnf-clang) printf '%s\n' clang compiler-rt ;;
    dnf-*) echo clang-tools-extra ;;
    *) echo "$1" ;;
  esac
}

# What the system has in too old a release, for a line to the user; nothing if
# all will do.
too_old_on_system() {
  case $system in
    "Ubuntu 22.04") echo "CMake (3.25), protobuf (3.21), curl (7.85) and nlohmann-json (3.11)" ;;
  esac
}

missing_packages() { # PACKAGE...
  local package
  declare -A have=()
  case $family in
    apt)
      while read -r package; do have[$package]=1; done < <(
        dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null |
          sed -n 's/^ii *//p'
      )
      ;;
    dnf)
      for package; do
        if rpm -q --whatprovides "$package" >/dev/null 2>&1; then have[$package]=1; fi
      done
      ;;
  esac
  for package; do
    if [[ -z ${have[$package]:-} ]]; then echo "$package"; fi
  done
}

# As root, with the proxies that the user has set.
as_root() {
  if ((EUID == 0)); then
    "$@"
  else
    sudo --preserve-env=http_proxy,https_proxy,ftp_proxy,no_proxy,HTTP_PROXY,HTTPS_PROXY,NO_PROXY \
      -- "$@"
  fi
}

install_with_apt() { # PACKAGE...
  local apt=(
    env DEBIAN_FRONTEND=noninteractive
    apt-get -qq -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3
  )
  # A set-up that was cut off may have left dpkg half-way.
  as_root dpkg --configure -a && as_root "${apt[@]}" update &&
    as_root "${apt[@]}" install --no-install-recommends "$@"
}

install_with_dnf() { # PACKAGE...
  as_root dnf -q -y install --setopt=install_weak_deps=False "$@"
}

install_packages() { # PACKAGE...
  local missing log=$cache/logs/packages.log
  if [[ $family == none ]]; then return; fi # What is installed is used.
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then return; fi
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    die "neither root nor sudo here; have these packages installed: ${missing[*]}"
  fi
  mkdir -p "$cache/logs"
  say "installing packages of $system: ${missing[*]}"
  if ! "install_with_$family" "${missing[@]}" >"$log" 2>&1 </dev/null; then
    die "failed: installing packages; last words: $(tail -n 1 "$log"); log: $log"
  fi
}

read_system
