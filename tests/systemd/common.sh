# shellcheck shell=bash
# Sourced by the scripts here and in tests/vm: where images are kept, how they are locked, what is said when it cannot be.
set -euo pipefail
me=$(basename "$0" .sh)

skip() { echo "$me: $*" >&2; exit 77; }
fail() { echo "$me: $*" >&2; exit 125; }

[ "$(id -u)" = 0 ] || skip "needs root"

cache=${TESTBED_CACHE:-/var/tmp/cgtree-testbed}
mkdir -p "$cache"
# /var/tmp is everybody's: what we boot must have been put there by us
if [ ! -O "$cache" ] || [ -L "$cache" ]; then fail "$cache is not ours"; fi

need() { # need PROGRAM PACKAGE...
  local missing=
  while [ $# -gt 0 ]; do
    command -v "$1" >/dev/null || missing="$missing $2"
    shift 2
  done
  [ -z "$missing" ] || skip "not installed:$missing"
}

# The Debian mirror that this machine's own apt uses.
find_mirror() {
  # shellcheck disable=SC2016  # apt's own variables
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' 2>/dev/null | sort -u | head -1)
  [ -n "$mirror" ] || skip "apt knows no Debian mirror here (apt-get update?)"
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -e "$keyring" ] || skip "not installed: debian-archive-keyring"
}

# is_made RESULT RECIPE...: whether RESULT stands and was made by the recipes as they are now.  Else what is there is removed, and
# the caller makes it, alone, and says `made RESULT` in the end.
declare -A recipes locks
is_made() {
  local result=$1 lock
  shift
  recipes[$result]=$(cat "$@" | sha256sum | cut -d' ' -f1)
  stands "$result" && return
  mkdir -p "$(dirname "$result")"
  exec {lock}>"$result.lock"
  locks[$result]=$lock
  flock "$lock"
  if stands "$result"; then
    exec {lock}>&-
    return
  fi
  rm -rf "$result"
  return 1
}

# wait_for PID: its exit status.  It goes with us, when we are told to go.
wait_for() {
  # shellcheck disable=SC2064  # this very one
  trap "kill $1; wait $1; exit 143" TERM INT HUP
  wait "$1"
}

stands() { [ "$(cat "$1/.made" 2>/dev/null)" = "${recipes[$1]}" ]; }

made() {
  local lock=${locks[$1]}
  echo "${recipes[$1]}" >"$1/.made"
  exec {lock}>&-
}
