#!/bin/bash
# kernel.sh SUITE   a Debian kernel, unpacked and not installed, with an initrd that finds the disk: bullseye (5.10), bookworm
# (6.1), trixie (6.12).  Prints where it is: vmlinuz, initrd, release.
# shellcheck source-path=SCRIPTDIR source=../systemd/common.sh
. "$(dirname "$(realpath "$0")")/../systemd/common.sh"
suite=$1 out=$cache/kernels/$1 flavour=cloud-amd64
if is_made "$out" "$(realpath "$0")"; then
  echo "$out"
  exit 0
fi
need busybox busybox-static depmod kmod cpio cpio xz xz-utils zstd zstd dpkg-deb dpkg
! ldd "$(command -v busybox)" >/dev/null 2>&1 || skip "not installed: busybox-static (this busybox needs libraries)"
find_mirror
echo "$me: fetching the kernel of $suite" >&2

t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
mkdir -p "$t"/apt/{lists,cache/archives}/partial "$t/unpacked" "$t/initrd"/{bin,dev,newroot,modules} "$out"
echo "deb [signed-by=$keyring] $mirror $suite main" >"$t/apt/sources.list"
: >"$t/apt/status"
apt=(-qq -o Dir::Etc::sourcelist="$t/apt/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$t/apt/lists"
  -o Dir::Cache="$t/apt/cache" -o Dir::State::status="$t/apt/status" -o APT::Sandbox::User=root -o APT::Architecture=amd64
  -o Acquire::Languages=none)
apt-get "${apt[@]}" update || skip "no package lists of $suite (is there a network?)"
package=$(apt-cache "${apt[@]}" depends "linux-image-$flavour" | awk '$1 == "Depends:" && $2 ~ /^linux-image/ { print $2; exit }')
(cd "$t" && apt-get "${apt[@]}" download "$package") || skip "no kernel of $suite"
dpkg-deb -x "$t"/*.deb "$t/unpacked"
cp "$t"/unpacked/boot/vmlinuz-* "$out/vmlinuz"
modules=$(echo "$t"/unpacked/lib/modules/* "$t"/unpacked/usr/lib/modules/* | tr ' ' '\n' | grep -v '\*' | head -1)
release=$(basename "$modules")
echo "$release" >"$out/release"

# busybox, the few modules that find and mount the disk, and the way to /sbin/init there
cp "$(command -v busybox)" "$t/initrd/bin/busybox"
base=${modules%/lib/modules/*}
depmod -b "$base" "$release"
: >"$t/initrd/order"
for module in virtio_pci virtio_blk virtio_console ext4 overlay; do
  # nothing is listed for what is built in
  modprobe -d "$base" -S "$release" --show-depends $module 2>/dev/null | awk '$1 == "insmod" { print $2 }' |
    while read -r file; do
      name=$(basename "$file")
      name=${name%%.ko*}.ko
      grep -qx "$name" "$t/initrd/order" && continue
      case $file in
        *.xz) xz -dc "$file" >"$t/initrd/modules/$name" ;;
        *.zst) zstd -qdc "$file" >"$t/initrd/modules/$name" ;;
        *) cp "$file" "$t/initrd/modules/$name" ;;
      esac
      echo "$name" >>"$t/initrd/order"
    done || true
done
cat >"$t/initrd/init" <<'I'
#!/bin/busybox sh
bb=/bin/busybox
$bb mount -t devtmpfs dev /dev
for module in $($bb cat /order); do $bb insmod /modules/$module; done
$bb mount -t ext4 -o noatime /dev/vda /newroot
$bb mount -o move /dev /newroot/dev
exec $bb switch_root /newroot /lib/systemd/systemd
I
chmod +x "$t/initrd/init"
(cd "$t/initrd" && find . | cpio -o -H newc --quiet) >"$out/initrd"
made "$out"
echo "$out"
