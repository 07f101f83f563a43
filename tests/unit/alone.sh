#!/bin/sh
# alone.sh ARCHIVE: child.c runs in a child that shares the memory, and the TLS, of a running parent. So its object must
# refer to nothing outside of itself: no libc, no memcpy that the compiler put in, no stack protector.
set -eu
[ -n "$(nm "$1" | sed -n '/child\.c\.o:$/,/^$/ { / T child_run$/p }')" ] || {
  echo "alone.sh: no child_run in $1"
  exit 1
}
wanted=$(nm -u "$1" | sed -n '/child\.c\.o:$/,/^$/ { s/^ *[Uwv] //p }' | grep -vx _GLOBAL_OFFSET_TABLE_ || true)
[ -z "$wanted" ] || {
  echo "child.c refers to:" "$wanted"
  exit 1
}
