#!/bin/bash
# nspawn.sh [-t SECONDS] SUITE SHARE COMMAND   a booted container of that suite on this machine's kernel: systemd as PID 1,
# D-Bus, PAM, logind, user@1000.service.  COMMAND runs there as root in a Delegate=yes service, in a copy of the directory
# SHARE; its output and its exit status are ours.  77 with a reason where that cannot be; 125: it never came to an end.
#
# All mounts happen in a private mount namespace in which v1 is hidden: on a hybrid tree nspawn would write into v1.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$(realpath "$0")")/common.sh"
limit=120
while getopts t: option; do
  case $option in
    t) limit=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# = 3 ] || { echo "usage: nspawn.sh [-t SECONDS] SUITE SHARE COMMAND" >&2; exit 2; }
need systemd-nspawn systemd-container unshare util-linux mount mount
image=$("$(dirname "$(realpath "$0")")/image.sh" "$1")

point=$(awk '{ for (i = 7; i < NF; i++) if ($i == "-" && $(i + 1) == "cgroup2") { print $5; exit } }' /proc/self/mountinfo)
[ -n "$point" ] || skip "no cgroup2 mount"
own=$(sed -n 's/^0:://p' /proc/self/cgroup)
name=cgtree-testbed-$$
mkdir "$point${own%/}/$name" 2>/dev/null || skip "cannot make a cgroup below $own"
unshare -m true 2>/dev/null || { rmdir "$point${own%/}/$name"; skip "no private mount namespace here"; }

t=$(mktemp -d)
# shellcheck disable=SC2317  # called by the trap
clear_up() {
  set +e
  local group=$point${own%/}/$name
  for _ in $(seq 500); do
    [ ! -e "$group/cgroup.kill" ] || echo 1 >"$group/cgroup.kill"
    grep -qx 'populated 0' "$group/cgroup.events" && break
    # cgroup.kill leaves a process whose main thread has exited
    find "$group" -name cgroup.procs -exec cat {} + 2>/dev/null | while read -r pid; do kill -KILL "$pid" 2>/dev/null; done
    sleep 0.01
  done
  find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
  [ ! -d "$group" ] || echo "$me: could not remove $group" >&2
  rm -rf "$t"
}
trap clear_up EXIT

mkdir "$t/share"
cp -a "$2/." "$t/share/"
chmod 755 "$t" "$t/share"
printf '%s\n' "$3" >"$t/share/.cmd"
# shellcheck disable=SC2016  # this text is the inner shell's
unshare -m --propagation private bash -euc '
  image=$1 share=$2 group=$3 limit=$4
  mount -t tmpfs -o mode=755 run /run
  mount -t cgroup2 none /sys/fs/cgroup
  echo $$ >/sys/fs/cgroup$group/cgroup.procs
  exec env SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 timeout --kill-after=5 "$limit" systemd-nspawn --quiet --register=no --keep-unit \
    --console=passive --volatile=overlay --hostname=testbed --machine=testbed -D "$image" --bind="$share":/mnt/share \
    --boot systemd.show_status=0
' nspawn "$image" "$t/share" "${own%/}/$name" "$limit" </dev/null >"$t/console" 2>&1 &
wait_for $! || true
cat "$t/share/.out" 2>/dev/null || true
rc=$(cat "$t/share/.rc" 2>/dev/null || true)
[ -n "$rc" ] || { tail -40 "$t/console" >&2; fail "the container gave no exit status"; }
exit "$rc"
