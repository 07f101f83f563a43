"""Scopes that cgtree has made, as their cgroups show them."""

import re
import select

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
