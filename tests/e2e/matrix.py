#!/usr/bin/env python3
"""Every misbehaving payload, ended in every way, in every placement, by root and by an unprivileged user in a delegated
subtree.  In each cell the payload first proves its misbehaviour; then the exit status is exact, the kernel says that the
tree is empty, no cgroup and no record is left, the canary outside lives, and all of it takes bounded time.

    matrix.py --cgtree PATH --payloads DIR [WORD...]     WORDs choose the cells whose names have them all
"""

import argparse
import os
import re
import signal
import sys

import kernel
import suite
from cell import expect
from kernel import now

SHORT_GRACE = 0.3   # where somebody ignores TERM: the end must not come before it
LONG_GRACE = 60     # where all obey: the end must come long before it
TIMEOUT = 0.9       # time for the payload to prove itself
SLACK = 4.0         # a loaded machine's own time


class Payload:
    def __init__(self, name, command, proof, ignores=False, slow=False, root_ignores=False):
        self.name, self.command, self.proof = name, command, proof
        self.ignores = ignores            # outlasts TERM until the grace is over
        self.slow = ignores or slow       # may need KILL
        self.root_ignores = root_ignores  # the root itself dies of KILL

    @property
    def grace(self):
        return SHORT_GRACE * kernel.PATIENCE if self.slow else LONG_GRACE


PAYLOADS = [
    Payload("setsid-child", ["setsid-child"], r"new-session sid=(\d+) before=(?!\1\b)"),
    Payload("double-fork", ["double-fork"], r"orphaned ppid=(\d+) root=(?!\1\b)"),
    Payload("fork-chain", ["fork-chain"], r"generations=\d{2,}", slow=True),
    Payload("term-ignorer", ["term-ignorer"], r"survived-term", ignores=True),
    Payload("term-ignorer-root", ["term-ignorer", "--as-root"], r"survived-term", ignores=True, root_ignores=True),
    Payload("stopped-member", ["stopped-member"], r"stopped .*state=T"),
    Payload("dead-leader-sleep", ["dead-leader", "--mode=sleep"], r"state=Z survived-term", ignores=True),
    Payload("dead-leader-read", ["dead-leader", "--mode=read"], r"state=Z survived-term", ignores=True),
    Payload("dead-leader-futex", ["dead-leader", "--mode=futex"], r"state=Z survived-term", ignores=True),
    Payload("dead-leader-root", ["dead-leader", "--as-root"], r"state=Z survived-term", ignores=True,
            root_ignores=True),
    Payload("threaded-cgroup", ["threaded-cgroup"], r"threaded cgroup.procs=EOPNOTSUPP"),
    Payload("nested-cgroups", ["nested-cgroups"], r"nested cgroup="),
    Payload("nested-frozen", ["nested-cgroups", "--mode=frozen"], r"frozen cgroup=", slow=True),
    Payload("stdout-holder", ["stdout-holder"], r"holds-stdout same=1 fifo=1"),
    Payload("helper-status", ["helper-status"], r"helper-status=96 orphan=97"),
    Payload("zombies", ["zombies"], r"zombies=3"),
    Payload("uid-change", ["uid-change"], r"uid=65534"),
    Payload("clear-environ", ["clear-environ"], r"environ-empty"),
    Payload("root-moves", ["root-moves"], r"moved from=(\S+) to=(?!\1$)"),
    Payload("chmod-zero", ["chmod-zero"], r"mode=0 "),
]

ENDS = ["normal", "non-zero", "timeout", "term", "kill", "death", "sweep"]
BACKENDS = ["subtree", "group"]
USERS = suite.USERS


class Run:
    """One cell's state, from the start of the tool to its last expectation."""

    def __init__(self, cell, payload, backend, end):
        self.cell, self.payload, self.backend, self.end = cell, payload, backend, end
        self.report = cell.report()
        self.note = ""
        self.ended_from = None
        self.timeout = TIMEOUT * kernel.PATIENCE

    def start(self):
        ends = {"normal": "exit:0", "non-zero": "exit:7"}
        command = [self.cell.payload(self.payload.command[0]), *self.payload.command[1:],
                   f"--report={self.report.path}", f"--end={ends.get(self.end, 'wait')}"]
        if self.payload.name == "root-moves":
            command.append(f"--into={self.cell.elsewhere.path}")
        options = [f"--grace={self.payload.grace}s"]
        if self.end == "timeout":
            options.append(f"--timeout={self.timeout}s")
        self.tool = self.start_tool(options, command)

    def start_tool(self, options, command):
        return self.cell.run(f"--backend={self.backend}", *options, command=command)

    def check_start(self):
        """The misbehaviour is proved, the record is there, and in a subtree every member is in the tree's cgroup."""
        self.report.wait_ready()
        expect(any(re.search(self.payload.proof, proof) for proof in self.report.proofs),
               f"not proved: {self.payload.proof!r} in {self.report.proofs}")
        expect(len(self.cell.record_ids()) == 1, f"records while it runs: {self.cell.record_ids()}")
        self.identity = self.cell.record_ids()[0]
        record = self.cell.record()
        expect(record["backend"] == self.backend, f"the record says backend {record['backend']}")
        if self.backend != "group" and self.payload.name != "root-moves":
            for member in self.report.members.values():
                where = member["cgroup"]
                expect(where == record["cgroup"] or where.startswith(record["cgroup"] + "/"),
                       f"{member['role']} is in {where}, not in the tree's {record['cgroup']}")

    def make_it_end(self):
        self.ended_from = now()
        if self.end in ("normal", "non-zero"):
            self.report.go()
        elif self.end == "timeout":
            self.ended_from = self.tool.started + self.timeout
        elif self.end == "term":
            self.tool.signal(signal.SIGTERM)
        elif self.end == "kill":
            self.end_by_kill()
        elif self.end == "death":
            self.tool.signal(signal.SIGKILL)
            self.end_of_stray()
        elif self.end == "sweep":
            self.end_by_sweep()

    def end_by_kill(self):
        code, kill = self.tool_kill()
        expect(code == 0, f"kill gave {code}: {kill}")

    def tool_kill(self):
        return self.cell.tool("kill", f"--records={self.cell.records}", f"--grace={self.payload.grace}s", self.identity)

    def end_by_sweep(self):
        """The tool is dead, and so is the guard or the reaper that would have acted at once."""
        self.cell.kill_with_helpers(self.tool)
        code, sweep = self.cell.tool("sweep", f"--records={self.cell.records}")
        expect(code == 0, f"sweep gave {code}: {sweep}")
        self.end_of_stray()

    def end_of_stray(self):
        """A root that left its cgroup is followed by the tool's pidfd alone."""
        if self.out_of_reach():
            self.note = "limit: with its owner dead nothing leads to a root that left its cgroup"
            expect(self.tool.wait_itself(5) == -signal.SIGKILL, "the tool was to die")
            empty = self.cell.wait_records_gone(SLACK)
            expect(empty and len(self.report.alive()) == 1, "the root that moved away is expected to be out of reach")
            os.kill(self.report.alive()[0], signal.SIGKILL)
            expect(self.cell.elsewhere.wait_populated(False, SLACK), "it lives")

    def out_of_reach(self):
        return self.payload.name == "root-moves" and self.backend != "group"

    def expected_code(self):
        if self.end == "kill":
            return -signal.SIGKILL if self.payload.root_ignores else -signal.SIGTERM
        return {"normal": 0, "non-zero": 7, "timeout": 124, "term": -signal.SIGTERM, "death": -signal.SIGKILL,
                "sweep": -signal.SIGKILL}[self.end]

    def check_end(self):
        bound = SLACK * kernel.PATIENCE + (self.payload.grace if self.payload.slow else 0)
        code = self.tool.wait(bound + (self.timeout if self.end == "timeout" else 0))
        expect(code == self.expected_code(), f"exit status {code}, not {self.expected_code()}")
        expect(self.report.wait_end(SLACK if self.end == "death" else 0.05), "a member still holds the report")
        if self.end == "death":
            expect(self.cell.wait_clean(SLACK, self.made_outside()), "not cleared up after the death of its owner")
        took = now() - self.ended_from
        expect(took < bound, f"took {took:.2f} s")
        if self.payload.ignores and self.waits_for_grace():
            expect(took >= self.payload.grace - 0.02, f"KILL came after {took:.3f} s, before the grace was over")
        self.cell.expect_clean(self.made_outside())
        self.check_messages()

    def waits_for_grace(self):
        # the trees of a dead owner are ended at once; a root that ends by itself leaves no ignorer
        if self.end in ("death", "sweep"):
            return False
        return not (self.payload.root_ignores and self.end in ("normal", "non-zero"))

    def made_outside(self):
        """In a group what the payload does to its cgroup it does to the caller's: that is not the tool's to remove."""
        return self.report.made if self.backend == "group" else []

    def check_messages(self):
        stderr = self.tool.stderr
        expect(all(line.startswith("cgtree: ") for line in stderr.splitlines()), f"stderr: {stderr!r}")
        if self.payload.name == "root-moves" and self.backend != "group" and self.end in ("timeout", "term"):
            expect(re.search(r"moved|left", stderr), f"the move is not reported: {stderr!r}")


def make_test(payload, backend, end):
    def test(cell):
        run = Run(cell, payload, backend, end)
        run.start()
        run.check_start()
        run.make_it_end()
        run.check_end()
        return run.note
    return test


def cells(user):
    return [(f"{user}/{backend}/{payload.name}/{end}", make_test(payload, backend, end))
            for payload in PAYLOADS for backend in BACKENDS for end in ENDS]


LETTERS = {"passed": ".", "failed": "F", "skipped": "s"}


def letter(result):
    return "-" if result is None else "l" if result.text.startswith("limit") else LETTERS[result.outcome]


def print_table(results):
    by_name = {result.name: result for result in results}
    columns = [(user, backend) for user in USERS for backend in BACKENDS]
    width = max(len(payload.name) for payload in PAYLOADS)
    print(f"\n{'':{width}}  " + "  ".join(f"{user + '/' + backend:15}" for user, backend in columns))
    print(f"{'':{width}}  " + "  ".join(f"{' '.join('nztckxw'):15}" for _ in columns))
    for payload in PAYLOADS:
        if not any(f"/{payload.name}/" in result.name for result in results):
            continue
        row = "  ".join(f"{' '.join(letter(by_name.get(f'{user}/{backend}/{payload.name}/{end}')) for end in ENDS):15}"
                        for user, backend in columns)
        print(f"{payload.name:{width}}  {row}")
    print("\nn normal end  z non-zero end  t timeout  c TERM to the tool  k cgtree kill"
          "\nx SIGKILL of the tool, whose helper ends the tree  w SIGKILL of both, then sweep"
          "\n. passed  l passed at a stated limit  F failed  s skipped  - not chosen")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options = suite.parse(parser)
    tests = {user: cells(user) for user in USERS}
    started = now()
    results, broken = suite.run(__file__, options, tests)
    if results is None:
        return broken
    suite.print_failures(results)
    print_table(results)
    suite.print_skips(results)
    return suite.summary("matrix", "cells", results, broken, now() - started)


if __name__ == "__main__":
    sys.exit(main())
