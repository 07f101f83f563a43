#!/usr/bin/env python3
"""In one place of a guest, as the user there: first what is decided there about placement, with the processes where the manager
has put them; then cells of the matrix, and what only a kill that stops half-way shows.  Results go to stdout, a line of JSON
each after the word RESULT.

    place.py --place NAME --systemd VERSION --share DIR [--part K/N] [--jobs N] [--brief] [WORD...]
"""

import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import cells  # noqa: E402
import decisions  # noqa: E402
import doctor  # noqa: E402
import halfway  # noqa: E402
import host as hosts  # noqa: E402
import kernel  # noqa: E402
import limits  # noqa: E402
import places  # noqa: E402


def say(word, text):
    sys.stdout.write(f"{word} {text}\n")
    sys.stdout.flush()


def enter_cells():
    """Cells need a cgroup of ours. Where there is none root makes it, right below the cgroup that the manager gave us."""
    own = kernel.Cgroup.own()
    if os.access(own.path, os.W_OK) and os.access(os.path.join(own.path, "cgroup.procs"), os.W_OK):
        return
    say("PREPARE", f"{os.getpid()} {os.getuid()} {own.path}")
    if sys.stdin.readline() != "prepared\n":
        raise SystemExit("root did not prepare a cgroup")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--place", required=True)
    parser.add_argument("--systemd", type=int, required=True)
    parser.add_argument("--share", required=True)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--brief", action="store_true", help="only what a slow machine is there to show")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    place = places.of(options.place)
    cgtree, payloads = os.path.join(options.share, "tools/cgtree"), os.path.join(options.share, "payload")

    def chosen(tests):
        return [test for test in tests if all(word in test[0] for word in options.words)]

    def report(result):
        say("RESULT", json.dumps(vars(result)))

    setting = decisions.Setting(place, options.systemd, cgtree, payloads)
    decisions.run(setting, chosen(decisions.tests(place, options.brief) + doctor.tests(place) + limits.tests(place)), report)
    enter_cells()
    part, of = (int(number) for number in options.part.split("/"))
    tests = chosen(cells.tests(place, options.systemd, part, of) + halfway.tests(place, options.brief))

    def work(host):
        hosts.run_all(host, tests, options.jobs, report)
        return 0

    return hosts.guarded(cgtree, payloads, "cells", work) if tests else 0


if __name__ == "__main__":
    sys.exit(main())
