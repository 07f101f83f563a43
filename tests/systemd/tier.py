#!/usr/bin/env python3
"""The tiers that need other machines: `systemd` boots containers with three versions of systemd on this kernel, `vm` whole
machines with three kernels.  In each, every place of places.py is visited.  One table at the end, the reasons for what was
skipped, and a last line `N passed, N failed, N skipped`.

    tier.py systemd|vm --build DIR [--machine NAME]... [--part K/N] [--places NAME,...] [WORD...]

WORDs choose the cells whose names have them all.  Exit status: 0 all passed, 1 something failed, 77 nothing could run."""

import argparse
import collections
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import places

HERE = os.path.dirname(os.path.realpath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
SKIP = 77

# What a tier boots: a name, the script and its arguments, and what is run there (options of place.py).  The containers together run
# the whole matrix in each place; a machine without hardware help is slow, and runs each payload and each end in some places.
Machine = collections.namedtuple("Machine", "name boot part options")
NSPAWN = [os.path.join(HERE, "nspawn.sh"), "-t", "600"]
VM = [os.path.join(os.path.dirname(HERE), "vm", "vm.sh"), "-t", "1500"]
SLOW = ["--at-once=2", "--jobs=1", "--brief"]  # nearly all there waits for the processor
TIERS = {
    "systemd": [
        Machine("systemd-247", [*NSPAWN, "bullseye"], "0/3", ["--jobs=2"]),
        Machine("systemd-252", [*NSPAWN, "bookworm"], "1/3", ["--jobs=2"]),
        Machine("systemd-257", [*NSPAWN, "trixie"], "2/3", ["--jobs=2"]),
    ],
    "vm": [
        Machine("linux-5.10", [*VM, "bullseye"], "0/18", SLOW),
        Machine("linux-6.1", [*VM, "bookworm"], "1/18", SLOW),
        Machine("linux-6.12", [*VM, "trixie"], "2/18", SLOW),
    ],
}


class Unavailable(Exception):
    """This machine cannot; the text says why."""


def run_script(*command):
    """The last line that it prints; what it says goes to stderr as it comes."""
    code, text = run(*command)
    if code:
        raise SystemExit(f"{command[0]} gave {code}")
    return text.strip().splitlines()[-1]


def run(*command):
    """(exit status, what it printed); what it says goes to stderr.  It goes with us, when we are told to go."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               errors="replace")
    try:
        out, said = process.communicate()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    sys.stderr.write(said)
    if process.returncode == SKIP:
        raise Unavailable(said.strip().splitlines()[-1])
    return process.returncode, out


def build(folder):
    """Against the libraries of the oldest guest; runs on all of them."""
    native = os.path.join(run_script(os.path.join(HERE, "sysroot.sh")), "meson.ini")
    configured = os.path.join(folder, "build.ninja")
    commands = [["ninja", "-C", folder]]
    if not os.path.exists(configured) or os.stat(configured).st_mtime < os.stat(native).st_mtime:
        shutil.rmtree(folder, ignore_errors=True)
        commands.insert(0, ["meson", "setup", "--native-file", native, "-Ddefault_library=static", "-Dman=disabled", folder, SOURCE])
    for command in commands:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} gave {done.returncode}:\n{done.stdout}")


def executables(folder):
    return [entry.path for entry in os.scandir(folder) if entry.is_file() and os.access(entry.path, os.X_OK)]


def fill_share(share, folder):
    for name, files in {
            "tools": executables(os.path.join(folder, "tools")),
            "payload": executables(os.path.join(folder, "tests/payload")) + [os.path.join(folder, "tests/systemd/halfway")],
            "e2e": python_files(os.path.join(os.path.dirname(HERE), "e2e")),
            "systemd": python_files(HERE)}.items():
        os.mkdir(os.path.join(share, name))
        for file in files:
            shutil.copy(file, os.path.join(share, name))


def python_files(folder):
    return [entry.path for entry in os.scandir(folder) if entry.name.endswith(".py")]


class Visit:
    """What came of one machine."""

    def __init__(self, machine):
        self.machine = machine
        self.guest, self.seconds = {}, 0.0
        self.results = collections.defaultdict(list)
        self.ends, self.said, self.broken = {}, [], []

    def take(self, line):
        word, _, rest = line.partition(" ")
        if word == "GUEST":
            self.guest = json.loads(rest)
        if word != "PLACE":
            return
        place, kind, text = (rest.split(" ", 2) + [""])[:3]
        if kind == "RESULT":
            self.results[place].append(json.loads(text))
        elif kind == "END":
            self.ends[place] = int(text)
        else:
            self.said.append(f"{place}: {text}")

    def boot(self, share, names, options):
        command = shlex.join(["exec", "python3", "systemd/inside.py", "--share=/mnt/share", f"--places={','.join(names)}",
                              f"--part={options.part or self.machine.part}", *self.machine.options, *options.words])
        started = time.monotonic()
        code, text = run(*self.machine.boot, share, command)
        self.seconds = time.monotonic() - started
        for line in text.splitlines():
            self.take(line)
        if code or not self.guest:
            self.broken.append(f"the machine gave {code}:\n{text[-2000:] if not self.guest else ''}")
        for name in names:
            if self.ends.get(name) not in (0, SKIP):
                self.broken.append(f"{name} ended with {self.ends.get(name)}")

    def count(self, outcome, place=None):
        return sum(result["outcome"] == outcome for name, results in self.results.items() if place in (None, name)
                   for result in results)

    def title(self):
        return f"{self.machine.name}: systemd {self.guest.get('systemd', '?')}, Linux {self.guest.get('kernel', '?')}" \
               f"{'' if self.guest.get('kill', True) else ' (no cgroup.kill)'}, {self.seconds:.0f} s"

    def print_failures(self):
        for place, results in self.results.items():
            for result in results:
                if result["outcome"] == "failed":
                    print(f"\nFAILED {self.machine.name} {result['name']} ({result['seconds']:.2f} s)\n  {result['text']}")
        for line in self.broken + (self.said if self.broken else []):
            print(f"BROKEN {self.machine.name}: {line}")

    def print_rows(self):
        print(f"\n{self.title()}")
        for place in places.PLACES:
            if place.name in self.results:
                expected = " and ".join(column[0] + (f"={column[1]}" if column[0] == "auto" else "")
                                        for column in places.columns(place, self.guest["systemd"]))
                print(f"  ({place.letter}) {place.name:16} {expected:28}"
                      + "".join(f"{self.count(outcome, place.name):7}" for outcome in ("passed", "failed", "skipped")))


def print_notes(visits):
    """Why cells were skipped, and at which stated limits they passed, with their numbers."""
    notes = collections.Counter()
    for visit in visits:
        for results in visit.results.values():
            notes.update((result["outcome"], result["text"]) for result in results
                         if result["outcome"] == "skipped" or result["text"].startswith("limit"))
    for (outcome, text), number in sorted(notes.items()):
        print(f"{number:5} {outcome}: {text}")


def visit_all(options):
    """(visits, reasons why other machines could not be visited)."""
    visits, reasons = [], []
    with tempfile.TemporaryDirectory(prefix="cgtree-tier-") as share:
        os.chmod(share, 0o755)
        build(options.build)
        fill_share(share, options.build)
        for machine in TIERS[options.tier]:
            if options.machine and machine.name not in options.machine:
                continue
            visit = Visit(machine)
            try:
                visit.boot(share, options.places.split(","), options)
            except Unavailable as reason:
                reasons.append(f"{machine.name}: {reason}")
                continue
            visits.append(visit)
            visit.print_failures()
    return visits, reasons


def print_summary(tier, visits, reasons):
    """The table, what there is to know beside it, and the last line; the exit status."""
    passed, failed, skipped = (sum(visit.count(outcome) for visit in visits) for outcome in ("passed", "failed", "skipped"))
    cells = passed + failed + skipped
    failed += sum(len(visit.broken) for visit in visits)
    if cells + failed == 0:
        print(f"skipped: {'; '.join(reasons)}")
        return SKIP
    print(f"\n{'':50}{'passed':>7}{'failed':>7}{'skipped':>8}")
    for visit in visits:
        visit.print_rows()
    print()
    print_notes(visits)
    for reason in reasons:
        print(f"skipped: {reason}")
    print(f"{tier}: {cells} cells on {len(visits)} machines in {sum(visit.seconds for visit in visits):.0f} s")
    print(f"{passed} passed, {failed} failed, {skipped + len(reasons)} skipped")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tier", choices=TIERS)
    parser.add_argument("--build", required=True, metavar="DIR", help="where the tool is built for the guests")
    parser.add_argument("--machine", action="append", help="only these of the tier")
    parser.add_argument("--part", help="K/N: the K-th of N parts of the matrix, instead of the machine's own")
    parser.add_argument("--places", default=",".join(place.name for place in places.PLACES))
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_intermixed_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        visits, reasons = visit_all(options)
    except Unavailable as reason:
        print(f"skipped: {reason}")
        return SKIP
    return print_summary(options.tier, visits, reasons)


if __name__ == "__main__":
    sys.exit(main())
