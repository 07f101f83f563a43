#!/bin/bash
# sysroot.sh   what a build needs to run on the oldest of the guests, and so on all of them: the C library, cJSON, libgcc and the
# kernel's headers of bullseye, unpacked and not installed.  Prints where it is, with a meson native file in it.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$(realpath "$0")")/common.sh"
out=$cache/sysroot
if is_made "$out" "$(realpath "$0")"; then
  echo "$out"
  exit 0
fi
need mmdebstrap mmdebstrap
find_mirror
echo "$me: fetching the libraries of bullseye" >&2
tar=$out.tar
trap 'rm -f "$tar"' EXIT
unshare -m --propagation private mmdebstrap --quiet --mode=root --variant=extract --format=tar \
  --include=libc6-dev,linux-libc-dev,libcjson-dev,libgcc-10-dev \
  bullseye "$tar" "deb [signed-by=$keyring] $mirror bullseye main" >&2 </dev/null ||
  skip "no libraries of bullseye (is there a network?)"
mkdir -p "$out"
tar -xf "$tar" -C "$out" ./lib ./lib64 ./usr/include ./usr/lib
# no link may lead out of it
find "$out" -type l -lname '/*' -printf '%p %l\n' | while read -r link target; do ln -sfrT "$out$target" "$link"; done
libraries=$out/usr/lib/x86_64-linux-gnu
cat >"$out/meson.ini" <<I
[binaries]
c = ['gcc', '--sysroot=$out', '-B$out/usr/lib/gcc/x86_64-linux-gnu/10', '-B$libraries', '-L$libraries']
[properties]
sys_root = '$out'
pkg_config_libdir = '$libraries/pkgconfig'
I
made "$out"
echo "$out"
