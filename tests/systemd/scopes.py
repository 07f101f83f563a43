"""Scopes that cgtree has made, as their cgroups show them."""

import re
import select

import kernel
from cell import expect
from kernel import Cgroup, deadline_in, now


def scope_of(cgroup):
    """The cgroup of the scope of cgtree's in which that one lies, or None."""
    found = re.match(r".*?/(app-)?cgtree-[^/]*\.scope(?=/|$)", cgroup)
    return found and Cgroup("/sys/fs/cgroup" + found[0])


def expect_gone(cgroup):
    """Its manager removes an empty scope, in its own time."""
    scope, deadline = scope_of(cgroup), deadline_in(5)
    while scope and scope.exists() and now() < deadline:
        select.select([], [], [], 0.01)
    expect(not scope or not scope.exists(), f"left: {scope and scope.path}")


TOO_SLOW = "the manager of this slow machine takes longer than cgtree waits for it"
SLOW = 3.0  # this much slower than it should a machine's manager may take longer than cgtree waits


def met_slow_manager(running):
    """Whether one of these did not wait for the manager any longer, on a machine where that is no wonder."""
    for one in running:
        one.drain("stdout"), one.drain("stderr")
    return kernel.PATIENCE >= SLOW and any(re.search("does not answer|took too long", one.stdout + one.stderr)
                                           for one in running)
