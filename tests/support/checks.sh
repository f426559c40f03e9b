# For tests in bash: a folder of their own, $scratch, and checks that go on when one
# fails; $failures counts those.

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

check() { # TITLE COMMAND...
  local title=$1
  shift
  if "$@" >"$scratch/output" 2>&1; then
    echo "ok      $title"
  else
    echo "FAILED  $title"
    sed 's/^/        /' "$scratch/output"
    failures=$((failures + 1))
  fi
}
