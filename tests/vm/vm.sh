#!/bin/bash
# vm.sh [-t SECONDS] [-k KERNEL-SUITE] [-m MB] [-v] SUITE SHARE COMMAND   a whole machine, in qemu without hardware help: a kernel
# of its own, one cgroup2 tree with all controllers, systemd as PID 1, a user's session.  COMMAND runs there as root in a
# Delegate=yes service, in a copy of the directory SHARE; its output and its exit status are ours.  77 with a reason where
# that cannot be; 125: it never came to an end.  The images are never written to, so several may run at once.
here=$(dirname "$(realpath "$0")")
# shellcheck source-path=SCRIPTDIR source=../systemd/common.sh
. "$here/../systemd/common.sh"
limit=180 kernel='' memory=1024 verbose=''
while getopts t:k:m:v option; do
  case $option in
    t) limit=$OPTARG ;;
    k) kernel=$OPTARG ;;
    m) memory=$OPTARG ;;
    v) verbose=1 ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# = 3 ] || { echo "usage: vm.sh [-t SECONDS] [-k KERNEL-SUITE] [-m MB] [-v] SUITE SHARE COMMAND" >&2; exit 2; }
need qemu-system-x86_64 qemu-system-x86 mke2fs e2fsprogs
kernel=$("$here/kernel.sh" "${kernel:-$1}")
root=$("$here/../systemd/image.sh" "$1")

disk=$cache/disks/$1
if ! is_made "$disk" "$root/.made" <(sed -n '/^  truncate/,/^  made/p' "$0"); then
  mkdir -p "$disk"
  truncate -s $(($(du -sm "$root" | cut -f1) * 115 / 100 + 40))M "$disk/ext4"
  mke2fs -q -t ext4 -O ^has_journal,^metadata_csum,^huge_file -d "$root" "$disk/ext4"
  made "$disk"
fi

t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
mkdir "$t/share"
printf '%s\n' "$3" >"$t/share/.cmd"
tar -C "$t/share" -cf "$t/share.tar" .
tar -C "$2" -rf "$t/share.tar" .
truncate -s %1M "$t/share.tar" # disks come in whole sectors
: >"$t/out"
: >"$t/rc"
# shellcheck disable=SC2054
arguments=(console=ttyS0 quiet loglevel=3 panic=-1 reboot=t,force mitigations=off nokaslr no_timer_check tsc=reliable audit=0
  selinux=0 apparmor=0 random.trust_cpu=on cryptomgr.notests rcupdate.rcu_expedited=1 systemd.show_status=0
  systemd.log_target=console systemd.log_level=warning systemd.unified_cgroup_hierarchy=1)
timeout --kill-after=5 "$limit" qemu-system-x86_64 -M q35 -accel tcg,thread=multi,tb-size=512 -cpu max -smp 2 -m "$memory" \
  -nodefaults -no-user-config -no-reboot -display none \
  -kernel "$kernel/vmlinuz" -initrd "$kernel/initrd" -append "${arguments[*]}" \
  -serial file:"$t/console" \
  -drive id=root,file="$disk/ext4",format=raw,if=none,snapshot=on,cache=unsafe -device virtio-blk-pci,drive=root \
  -drive id=share,file="$t/share.tar",format=raw,if=none,readonly=on -device virtio-blk-pci,drive=share \
  -device virtio-serial-pci \
  -chardev file,id=out,path="$t/out" -device virtserialport,chardev=out,name=out \
  -chardev file,id=rc,path="$t/rc" -device virtserialport,chardev=rc,name=rc </dev/null >&2 &
wait_for $! || echo "$me: qemu ended with $?" >&2
cat "$t/out"
[ -z "$verbose" ] || cat "$t/console" >&2
rc=$(tr -dc 0-9 <"$t/rc")
[ -n "$rc" ] || { tail -40 "$t/console" >&2; fail "the machine gave no exit status"; }
exit "$rc"
