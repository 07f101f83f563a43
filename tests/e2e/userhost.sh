#!/bin/bash
# userhost.sh [--share DIR]... [--] COMMAND...   COMMAND as an unprivileged user in a delegated cgroup2 subtree of this host,
# below the user's own real `systemd --user` where systemd is installed.  Needs root to set up; exits with COMMAND's status,
# or 77 with a reason.  The user, its home and /run exist only in a private mount namespace; each shared directory is
# readable at its own path, wherever that is.  $CG names the subtree; COMMAND starts in $CG/payload.
set -euo pipefail

skip() { echo "userhost: $*" >&2; exit 77; }

share=()
while [ $# -gt 0 ]; do
  case $1 in
    --share) share+=("$(realpath "$2")"); shift 2 ;;
    --) shift; break ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || { echo "usage: userhost.sh [--share DIR]... [--] COMMAND..." >&2; exit 2; }

[ "$(id -u)" = 0 ] || skip "needs root to make a user's subtree"
for tool in setpriv unshare mount; do command -v $tool >/dev/null || skip "$tool is not installed"; done
point=$(awk '{ for (i = 7; i < NF; i++) if ($i == "-" && $(i + 1) == "cgroup2") { print $5; exit } }' /proc/self/mountinfo)
[ -n "$point" ] || skip "no cgroup2 mount"
own=$(sed -n 's/^0:://p' /proc/self/cgroup)
root=$point${own%/}/cgtree-userhost-$$
mkdir "$root" 2>/dev/null || skip "cannot make a cgroup below $own"
unshare -m true 2>/dev/null || { rmdir "$root"; skip "no private mount namespace here"; }

t=$(mktemp -d)
# shellcheck disable=SC2317  # called by the trap
clear_up() {
  set +e
  for _ in $(seq 300); do
    echo 1 >"$root/cgroup.kill"
    grep -qx 'populated 0' "$root/cgroup.events" && break
    # cgroup.kill leaves a process whose main thread has exited
    find "$root" -name cgroup.procs -exec cat {} + 2>/dev/null | while read -r pid; do kill -KILL "$pid" 2>/dev/null; done
    sleep 0.01
  done
  find "$root" -depth -type d -exec rmdir {} + 2>/dev/null
  [ ! -d "$root" ] || echo "userhost: could not remove $root" >&2
  rm -rf "$t"
}
trap clear_up EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

mkdir "$root/manager" "$root/payload" "$t/share" "$t/home"
chmod 755 "$t" "$t/share"

# in the namespace: $t ROOT UID GID N SHARED... COMMAND...
# shellcheck disable=SC2016  # this text is the inner shell's
inner='
set -eu
t=$1 root=$2 id=$3 count=$4; shift 4
sed "\$a cgtree-tester:x:$id:$id::/home/cgtree-tester:/bin/sh" /etc/passwd >$t/passwd
sed "\$a cgtree-tester:x:$id:" /etc/group >$t/group
chmod 644 $t/passwd $t/group
chown $id:$id $t/home
user() { setpriv --reuid $id --regid $id --clear-groups "$@"; }
# what the user cannot enter is held open by a bind mount, or copied, before anything on the way to it is hidden
i=0
for dir; do
  [ $i -lt $count ] || break
  mkdir $t/share/$i
  if ! user test -x "$dir"; then
    : >$t/share/$i.closed
    mount --bind "$dir" $t/share/$i
    user test -x $t/share/$i || { umount $t/share/$i; cp -a "$dir/." $t/share/$i; chmod 755 $t/share/$i; }
  fi
  i=$((i + 1))
done
mount -t tmpfs -o mode=755 run /run
mkdir -p /run/systemd/system /run/user/$id
chown $id:$id /run/user/$id; chmod 700 /run/user/$id
mount --bind $t/passwd /etc/passwd
mount --bind $t/group /etc/group
i=0
for dir; do
  [ $i -lt $count ] || break
  if [ -e $t/share/$i.closed ]; then
    way=
    IFS=/
    for part in $dir; do
      [ -n "$part" ] || continue
      way=$way/$part
      [ ! -d "$way" ] || user test -x "$way" || { mount -t tmpfs -o mode=755 open "$way"; break; }
    done
    unset IFS
    mkdir -p "$dir"
    mount --bind $t/share/$i "$dir"
  fi
  i=$((i + 1))
done
while [ $count -gt 0 ]; do shift; count=$((count - 1)); done
for d in $root $root/manager $root/payload; do
  chown $id:$id $d $d/cgroup.procs $d/cgroup.subtree_control $d/cgroup.threads
done
as() {
  user env -i HOME=$t/home USER=cgtree-tester LOGNAME=cgtree-tester \
    PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin XDG_RUNTIME_DIR=/run/user/$id \
    DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/$id/bus CG=$root ${LANG:+LANG=$LANG} "$@"
}
echo $$ >$root/manager/cgroup.procs
manager=
if [ -x /lib/systemd/systemd ]; then
  as /lib/systemd/systemd --user >$t/log 2>&1 </dev/null & manager=$!
  i=0
  until [ -S /run/user/$id/bus ] && as systemctl --user is-system-running 2>/dev/null | grep -qE "running|degraded"; do
    i=$((i + 1))
    [ $i -lt 200 ] || { echo "userhost: no user manager came up" >&2; cat $t/log >&2; exit 77; }
    sleep 0.05
  done
else
  echo "userhost: systemd is not installed: a delegated subtree without a user manager" >&2
fi
cd /
rc=0
as sh -c "echo \$\$ >\$CG/payload/cgroup.procs && exec \"\$@\"" userhost "$@" || rc=$?
[ -z "$manager" ] || { as systemctl --user exit; wait $manager || true; }
exit $rc
'
id=61987 # no account of this machine: the namespace makes it one
rc=0
unshare -m --propagation private sh -c "$inner" userhost "$t" "$root" $id ${#share[@]} "${share[@]}" "$@" || rc=$?
exit $rc
