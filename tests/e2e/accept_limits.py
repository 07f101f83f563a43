"""Limits, as far as they can be shown without controllers: nothing starts where one cannot be enforced.  What they hold is in
tests/systemd/limits.py."""

import os
import re

from accept_host import own_line
from cell import expect
from registry import test

LIMITS = {"--memory-max=1G": "memory", "--tasks-max=100": "tasks", "--cpu-max=50%": "cpu"}


def refused(cell, options, pattern):
    ran = os.path.join(cell.dir, "ran")
    run = cell.run(*options, command=["touch", ran])
    code = run.wait(10)
    expect(code == 125 and not os.path.exists(ran), f"status {code}: {run}")
    own_line(run.stderr, 1)
    expect(re.match(f"cgtree: {pattern}", run.stderr), f"not what is expected: {run}")
    cell.expect_clean()


@test("limits: beside a process or without the controller: 125, one line that names limit, cgroup and reason")
def not_here(cell):
    """The cell's cgroup has members; and on a hybrid machine v1 has the controllers."""
    for option, name in LIMITS.items():
        for backend in ("auto", "subtree"):
            refused(cell, [option, f"--backend={backend}", "--quiet"],
                    rf"no limit of {name} can be had here: cgroup \S*cell-\S* has (no '\w+' controller|processes of its own \(pid)")
    refused(cell, LIMITS, "no limit of memory, tasks and cpu can be had here: ")


@test("limits: never in a process group, and auto never takes one for them")
def never_in_a_group(cell):
    for option, name in LIMITS.items():
        refused(cell, [option, "--backend=group"], f"a process group cannot be limited in {name}: it takes a cgroup")
        ran = os.path.join(cell.dir, "ran")
        run = cell.run(option, command=["touch", ran], environment={"CGTREE_BASE": "/no-such-cgroup"})
        code = run.wait(10)
        expect(code == 125 and not os.path.exists(ran), f"status {code}: {run}")
        own_line(run.stderr, 1)
        expect(f"no limit of {name}" in run.stderr and "/no-such-cgroup" in run.stderr, f"{run}")
    cell.expect_clean()


@test("limits: infinity is none")
def infinity(cell):
    run = cell.run("--memory-max=infinity", "--tasks-max=infinity", "--cpu-max=infinity", "--require=whole", command=["sh", "-c", "exit 7"])
    code = run.wait(10)
    expect(code == 7 and run.stderr == "", f"status {code}: {run}")
    cell.expect_clean()


@test("limits: what is no amount is named, and is wrong usage")
def no_amount(cell):
    for option in ("--memory-max=64X", "--memory-max=0", "--memory-max=9999999T", "--tasks-max=1.5", "--tasks-max=-1", "--cpu-max=50",
                   "--cpu-max=0%"):
        name, _, value = option.partition("=")
        refused(cell, [option], rf"{name}: '{re.escape(value)}' is ")
