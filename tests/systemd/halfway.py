"""A killer that is itself killed half-way leaves a tree that the next one ends: never one that is frozen for good.  And where a
tree cannot be ended whole, what is left of it is not left frozen."""

import os
import select
import signal

from cell import expect
from kernel import Cgroup, deadline_in, now, scaled

CALLS = [0, 4, 16]  # how many system calls after the write the killer dies
PLACES = ["root-delegated", "user-delegated"]
BRIEF_CALLS, BRIEF_PLACES = [0, 16], ["root-delegated"]


def has_kill():
    """Whether this kernel has cgroup.kill (5.14)."""
    return os.path.exists(os.path.join(Cgroup.own().path, "cgroup.kill"))


def start_tree(cell, *options, prefix=(), payload=("setsid-child",), **more):
    report = cell.report()
    command = [cell.payload(payload[0]), *payload[1:], f"--report={report.path}"]
    run = cell.start([*prefix, cell.host.cgtree, "run", "--backend=subtree", *options, "--", *command], **more)
    report.wait_ready()
    return report, run, cell.tree_cgroup()


def dying(cell, file, calls):
    return [cell.payload("halfway"), file, str(calls)]


def die(cell, file, calls, *arguments):
    """The verb, killed at that point."""
    running = cell.start([*dying(cell, file, calls), cell.host.cgtree, *arguments])
    code = running.wait(20)
    expect(code == 0, f"it was not ended half-way: {code} {running}")


def expect_code(pair):
    code, running = pair
    expect(code == 0, f"status {code}: {running}")


def sweep(cell):
    """From inside the cell, whose cgroup is then one of those in which leftovers are looked for."""
    running = cell.start([cell.host.cgtree, "sweep"])
    expect_code((running.wait(15), running))


def kill_then_kill(cell, calls):
    report, run, tree = start_tree(cell, "--grace=20s")
    die(cell, "cgroup.freeze", calls, "kill", cell.record_ids()[0])
    expect(calls or tree.read("cgroup.freeze") == "1\n", "it did not die between freeze and thaw")
    expect_code(cell.tool("kill", cell.record_ids()[0]))
    expect(report.wait_end(0.1), "the tree lives")
    code = run.wait(5)
    expect(code == -signal.SIGTERM, f"return code {code}: {run}")
    cell.expect_clean()


def kill_then_sweep(cell, calls):
    report, run, tree = start_tree(cell, "--grace=20s", payload=("term-ignorer",))
    die(cell, "cgroup.freeze", calls, "kill", cell.record_ids()[0])
    expect(calls or tree.read("cgroup.freeze") == "1\n", "it did not die between freeze and thaw")
    cell.kill_with_helpers(run)
    sweep(cell)
    expect(report.wait_end(0.1), "the tree lives")
    cell.expect_clean()


def kill_then_owner(cell, calls):
    """Its guard ends the tree of a dead owner, frozen or not, and takes home and record away."""
    report, run, tree = start_tree(cell, "--grace=20s")
    die(cell, "cgroup.freeze", calls, "kill", cell.record_ids()[0])
    expect(calls or tree.read("cgroup.freeze") == "1\n", "it did not die between freeze and thaw")
    run.signal(signal.SIGKILL)
    run.wait_itself(5)
    expect(report.wait_end(5), "the tree lives")
    cell.wait_clean(5)
    cell.expect_clean()


def last_step():
    """The write with which everything is killed: to cgroup.kill, or that which holds still those who are then killed one by one."""
    return "cgroup.kill" if has_kill() else "cgroup.freeze"


def kill_now_then_sweep(cell, calls):
    report, run, _ = start_tree(cell, payload=("fork-chain",))
    run.signal(signal.SIGSTOP)  # it does not see what happens to its tree
    die(cell, last_step(), calls, "kill", "--now", cell.record_ids()[0])
    cell.kill_with_helpers(run)
    sweep(cell)
    expect(report.wait_end(0.1), "the tree lives")
    cell.expect_clean()


def sweep_then_sweep(cell, calls):
    report, run, _ = start_tree(cell, payload=("dead-leader", "--mode=read"))
    cell.kill_with_helpers(run)
    die(cell, last_step(), calls, "sweep")
    sweep(cell)
    expect(report.wait_end(0.1), "the tree lives")
    cell.expect_clean()


def owner_half_way(cell, calls):
    """The owner dies while it ends its own tree: that is its guard's then."""
    report, run, _ = start_tree(cell, f"--timeout={scaled(1)}", "--grace=20s", prefix=dying(cell, "cgroup.freeze", calls))
    code = run.wait_itself(10)
    expect(code == 0, f"it was not ended half-way: {code} {run}")
    expect(report.wait_end(5), "the tree lives")
    cell.wait_clean(5)
    cell.expect_clean()


def wait_thawed(group, seconds):
    deadline = deadline_in(seconds)
    while group.events()["frozen"] == "1" and now() < deadline:
        select.select([], [], [], 0.01)
    return group.events()["frozen"] == "0"


def not_left_frozen(cell):
    """A member that the owner of the tree may not signal: ended where cgroup.kill does it, else named and left as it was."""
    base = cell.cgroup.make("delegated")
    for name in ("", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"):
        os.chown(os.path.join(base.path, name), 65534, 65534)
    os.chown(cell.records, 65534, 65534)
    report, run, tree = start_tree(cell, f"--timeout={scaled(1.5)}", "--grace=200ms", caller=[f"--cgroup={base.path}"],
                                   prefix=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
    member = cell.start([cell.payload("canary")], caller=[f"--cgroup={tree.path}"])
    member.wait_text("stderr", "ready", 10)
    code = run.wait(20)
    if has_kill():
        expect(code == 124 and member.wait(1) == -signal.SIGKILL, f"status {code}: {run}")
    else:
        expect(code == 125 and f"pid {member.pid} " in run.stderr, f"status {code}: {run}")
        # the guard goes on trying; it holds still what it walks over, but not for long
        expect(wait_thawed(tree, 5) and tree.populated(), f"{tree.events()}")
        expect(member.process.poll() is None and len(cell.record_ids()) == 1, f"{run}")
        member.signal(signal.SIGKILL)
        member.wait(5)
        expect(cell.wait_clean(5, [base.path]), "the guard did not see that it ended")
    expect(report.wait_end(0.1), "a member lives")
    expect(base.below() == [], f"left: {base.below()}")
    os.rmdir(base.path)
    cell.expect_clean()


TESTS = {
    "kill dies while it terminates, kill": kill_then_kill,
    "kill dies while it terminates, sweep": kill_then_sweep,
    "kill dies while it terminates, then the owner": kill_then_owner,
    "kill --now dies, sweep": kill_now_then_sweep,
    "sweep dies, sweep": sweep_then_sweep,
    "run dies in its timeout": owner_half_way,
}


def tests(place, brief):
    if place.name not in (BRIEF_PLACES if brief else PLACES):
        return []
    found = [(f"{place.name}/halfway/{name}, {calls} calls later", lambda cell, test=test, calls=calls: test(cell, calls))
             for name, test in TESTS.items() for calls in (BRIEF_CALLS if brief else CALLS)]
    if place.uid == 0:
        found.append((f"{place.name}/halfway/a member that may not be signalled", not_left_frozen))
    return found
