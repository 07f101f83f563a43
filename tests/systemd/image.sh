#!/bin/bash
# image.sh SUITE   a minimal Debian root that boots systemd in some seconds and runs one command: bullseye (systemd 247),
# bookworm (252), trixie (257).  Prints where it is.  Made once, from the mirror that this machine's apt uses.
#
# Users: tester (1000) lingers, so that user@1000.service is there from the boot; plain (1001) has no manager.
# testbed.service, a Delegate=yes service of root's, runs `sh .cmd` in /mnt/share.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$(realpath "$0")")/common.sh"
script=$(realpath "$0") suite=$1
base=$cache/packages/$suite root=$cache/roots/$suite

# In a mount namespace of its own: nothing that is mounted on the way reaches this machine.
fetch_packages() {
  need mmdebstrap mmdebstrap
  find_mirror
  echo "$me: fetching the packages of $suite" >&2
  mkdir -p "$base"
  local packages=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,passwd,login,util-linux,mount,procps
  packages=$packages,python3,libcjson1
  unshare -m --propagation private mmdebstrap --quiet --mode=root --variant=essential --format=tar --include=$packages \
    --aptopt='APT::Install-Recommends "false"' --dpkgopt=force-unsafe-io \
    "$suite" "$base/root.tar" "deb [signed-by=$keyring] $mirror $suite main" >&2 </dev/null ||
    skip "no $suite root could be made (is there a network?)"
}

if is_made "$root" "$script"; then
  echo "$root"
  exit 0
fi
if ! is_made "$base" <(declare -f fetch_packages); then
  fetch_packages
  made "$base"
fi
echo "$me: making a $suite root in $root" >&2
mkdir -p "$root"
excluded=(--exclude='./dev/*' --exclude='./var/lib/apt/lists/*' --exclude='./var/cache/apt/*')
for folder in doc man locale info zoneinfo; do excluded+=(--exclude="./usr/share/$folder/*"); done
tar -xf "$base/root.tar" -C "$root" "${excluded[@]}"

echo testbed >"$root/etc/hostname"
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
: >"$root/etc/fstab"
for user in tester:1000 plain:1001; do
  name=${user%:*} id=${user#*:}
  echo "$name:x:$id:$id::/home/$name:/bin/sh" >>"$root/etc/passwd"
  echo "$name:x:$id:" >>"$root/etc/group"
  echo "$name:!:19000::::::" >>"$root/etc/shadow"
  install -d -o "$id" -g "$id" "$root/home/$name"
done
install -d "$root/var/lib/systemd/linger" "$root/mnt/share" "$root/etc/systemd/journald.conf.d"
: >"$root/var/lib/systemd/linger/tester"
printf '[Journal]\nStorage=volatile\n' >"$root/etc/systemd/journald.conf.d/testbed.conf"

units=$root/etc/systemd/system
cat >"$units/testbed.target" <<'U'
[Unit]
Description=What the tests need, and nothing else
Requires=basic.target systemd-logind.service testbed.service
After=basic.target
AllowIsolate=yes
U
cat >"$units/testbed.service" <<'U'
[Unit]
Description=Run the host's command, then leave
Requires=dbus.service systemd-logind.service user@1000.service
Wants=systemd-user-sessions.service
After=basic.target dbus.service systemd-logind.service systemd-user-sessions.service user@1000.service
[Service]
ExecStart=/usr/local/sbin/testbed-run
TimeoutStopSec=5
Delegate=yes
U
ln -s testbed.target "$units/default.target"
# what a machine that lives for a minute has no use for
for unit in getty.target getty@.service serial-getty@.service systemd-update-utmp.service \
  systemd-update-utmp-runlevel.service systemd-journal-flush.service systemd-random-seed.service \
  systemd-pstore.service systemd-hwdb-update.service systemd-machine-id-commit.service \
  systemd-journal-catalog-update.service systemd-sysusers.service systemd-binfmt.service \
  systemd-modules-load.service systemd-remount-fs.service systemd-sysctl.service \
  systemd-ask-password-console.path systemd-ask-password-wall.path systemd-boot-system-token.service \
  e2scrub_reap.service e2scrub_all.timer fstrim.timer apt-daily.timer apt-daily-upgrade.timer \
  dpkg-db-backup.timer systemd-tmpfiles-clean.timer systemd-firstboot.service \
  sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount \
  dev-mqueue.mount sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount \
  modprobe@configfs.service modprobe@drm.service modprobe@fuse.service modprobe@efi_pstore.service \
  modprobe@dm_mod.service modprobe@loop.service systemd-tpm2-setup.service \
  systemd-tpm2-setup-early.service systemd-pcrphase.service systemd-pcrphase-sysinit.service; do
  ln -sf /dev/null "$units/$unit"
done

cat >"$root/usr/local/sbin/testbed-run" <<'R'
#!/bin/sh
# /mnt/share holds what the host shares, .cmd among it.  In a container it is a bind mount, and the output and the exit
# status are left there; to a whole machine it comes as a tar on the second disk, and they leave by two virtio ports.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
out=/mnt/share/.out rc=/mnt/share/.rc leave=poweroff
if [ -e /dev/vdb ]; then
  for port in /sys/class/virtio-ports/*; do ln -s "/dev/${port##*/}" "/run/testbed-$(cat "$port/name")"; done
  mount -t tmpfs -o mode=755 work /mnt/share
  tar -xf /dev/vdb -C /mnt/share
  out=/run/testbed-out rc=/run/testbed-rc leave=reboot
fi
exec </dev/null >$out 2>&1
cd /mnt/share
sh .cmd
echo $? >$rc
systemctl $leave -ff >/dev/null 2>&1
R
chmod 755 "$root/usr/local/sbin/testbed-run"
# compiled once, not at each start of a machine whose disk is never written
chroot "$root" python3 -m compileall -q /usr/lib/python3 /usr/lib/python3.[0-9]* >/dev/null 2>&1 || true
made "$root"
echo "$root"
