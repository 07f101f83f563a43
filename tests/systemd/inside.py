#!/usr/bin/env python3
"""Root's part in a guest: brings a process to each of the places, some of them at once, and passes on what they say.

    inside.py --share DIR [--places NAME,...] [--at-once N] [OPTION of place.py...] [WORD...]

A line `PLACE NAME WORD ...` for each line of a place: RESULT and its JSON, END and its exit status, or SAID and any other
text; before them `GUEST` and what this guest is."""

import argparse
import concurrent.futures
import json
import os
import platform
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import places  # noqa: E402

LOCK = threading.Lock()


def tell(*words):
    with LOCK:
        print(*words, flush=True)


def systemd_version():
    return int(subprocess.run(["systemctl", "--version"], check=True, stdout=subprocess.PIPE).stdout.split()[1])


def prepare(pid, uid, cgroup):
    """A cgroup for the cells of a place that may make none itself."""
    made = os.path.join(cgroup, "cells")
    os.mkdir(made)
    for name in ("", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"):
        os.chown(os.path.join(made, name), uid, uid)
    with open(os.path.join(made, "cgroup.procs"), "w") as procs:
        procs.write(pid)


def attend(place, command):
    process = subprocess.Popen([*place.how, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, bufsize=1)
    for line in process.stdout:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "PREPARE":
            pid, uid, cgroup = rest.split(" ", 2)
            prepare(pid, int(uid), cgroup)
            process.stdin.write("prepared\n")
            process.stdin.flush()
        elif word == "RESULT":
            tell("PLACE", place.name, "RESULT", rest)
        else:
            tell("PLACE", place.name, "SAID", line.rstrip("\n"))
    tell("PLACE", place.name, "END", process.wait())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", required=True)
    parser.add_argument("--places", default=",".join(place.name for place in places.PLACES))
    parser.add_argument("--at-once", type=int, default=len(places.PLACES), help="how many places (default: all)")
    options, rest = parser.parse_known_args()
    version = systemd_version()
    tell("GUEST", json.dumps({"systemd": version, "kernel": platform.release(),
                              "kill": os.path.exists("/sys/fs/cgroup/system.slice/cgroup.kill")}))

    def visit(name):
        attend(places.of(name), [sys.executable, os.path.join(options.share, "systemd/place.py"), "--place", name, "--systemd",
                                 str(version), "--share", options.share, *rest])

    with concurrent.futures.ThreadPoolExecutor(max_workers=options.at_once) as pool:
        list(pool.map(visit, options.places.split(",")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
