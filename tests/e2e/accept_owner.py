"""The tool as an owner that is killed: by SIGKILL, stopped or not, by a crash, by a parent that has a kill window of its own.
What its helper leaves is nothing."""

import os
import resource
import select
import signal

import kernel
from accept_end import start_tree
from cell import expect
from kernel import children_of, now, wait_state
from registry import BACKENDS, test

WINDOW_SECONDS = 0.05  # from the parent's kill to the end of the last member, on a quiet machine


def no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def sleep(seconds):
    """A parent that waits in its kill window; nothing is judged by it."""
    select.select([], [], [], seconds)


def helper_of(run):
    helpers = [pid for pid, name in children_of(run.pid).items() if name in ("cgtree-guard", "cgtree-reaper")]
    expect(len(helpers) == 1, f"helpers: {helpers}")
    return helpers[0]


def kill_and_measure(cell, run, *reports):
    """SIGKILL to the tool; the kernel says when the last member of each tree is dead.  The figure, for the listing."""
    started = now()
    run.signal(signal.SIGKILL)
    for report in reports:
        expect(report.wait_end(5), "a member outlives the tool")
    took = now() - started
    expect(run.wait_itself(5) == -signal.SIGKILL, f"{run}")
    expect(took < 10 * WINDOW_SECONDS * kernel.PATIENCE, f"the last member died {1000 * took:.0f} ms after the tool")
    expect(cell.wait_clean(5), "something is left")
    cell.expect_canary()
    return f"{1000 * took:.1f} ms"


def wedge(run):
    run.signal(signal.SIGSTOP)
    expect(wait_state(run.pid, "T", 5), "not stopped")


@test("SIGKILL of the tool ends its tree", backends=BACKENDS)
def killed(cell, backend):
    report, run = start_tree(cell, backend, "--grace=1h", payload=("term-ignorer", "--as-root"))
    return kill_and_measure(cell, run, report)


@test("a tool that was stopped, then SIGKILLed after 500 ms: its tree ends", backends=BACKENDS)
def stopped_and_killed(cell, backend):
    report, run = start_tree(cell, backend, "--grace=1h", payload=("dead-leader",))
    wedge(run)
    sleep(0.5)
    expect(report.alive() and not report.ended, "a tree was ended because its owner was stopped")
    return kill_and_measure(cell, run, report)


@test("a crash of the tool ends its tree", backends=BACKENDS)
def crashed(cell, backend):
    report = cell.report()
    run = cell.run(f"--backend={backend}", "--grace=1h", preexec_fn=no_core,
                   command=[cell.payload("term-ignorer"), "--as-root", f"--report={report.path}"])
    report.wait_ready()
    run.signal(signal.SIGSEGV)
    expect(report.wait_end(5), "a member outlives the tool")
    expect(run.wait_itself(5) == -signal.SIGSEGV, f"{run}")
    expect(cell.wait_clean(5), "something is left")
    cell.expect_canary()


@test("cancelled with a grace of 150 ms, all is over before the parent kills at 1,500 ms", backends=BACKENDS)
def cancelled_in_time(cell, backend):
    report, run = start_tree(cell, backend, "--grace=150ms", payload=("term-ignorer", "--as-root"))
    run.signal(signal.SIGTERM)
    started = now()
    expect(report.wait_end(1.5), "the tree lives when the parent kills")
    took = now() - started
    expect(run.wait(5) == -signal.SIGTERM, f"{run}")
    expect(took >= 0.14, f"ended {1000 * took:.0f} ms after TERM, before the grace was over")
    cell.expect_clean()
    return f"{1000 * took:.0f} ms"


@test("cancelled, then wedged, then SIGKILLed at 1,500 ms: a tree that ignores TERM ends", backends=BACKENDS)
def cancelled_and_wedged(cell, backend):
    report, run = start_tree(cell, backend, "--grace=1h", payload=("term-ignorer", "--as-root"))
    run.signal(signal.SIGTERM)
    sleep(0.05)
    wedge(run)
    sleep(1.45)
    expect(report.alive() and not report.ended, "it did not ignore TERM")
    return kill_and_measure(cell, run, report)


@test("a background job that a finished command left ends with the tool", backends=BACKENDS)
def background_job(cell, backend):
    report = cell.report()
    script = f"{cell.payload('setsid-child')} --report={report.path} & exit 0"
    run = cell.run(f"--backend={backend}", "--leftovers=wait", command=["sh", "-c", script])
    report.wait_ready()
    return kill_and_measure(cell, run, report)


def start_nested(cell, backend):
    """A tool in a tree of another's: both have members that ignore TERM."""
    outer_report, inner_report = cell.report(), cell.report()
    inner = f"{cell.host.cgtree} run -q --backend={backend} --grace=1h --name=inner -- {cell.payload('term-ignorer')} " \
            f"--as-root --report={inner_report.path}"
    script = f"{inner} & exec {cell.payload('term-ignorer')} --as-root --report={outer_report.path}"
    run = cell.run(f"--backend={backend}", "--grace=1h", "--name=outer", command=["sh", "-c", script])
    outer_report.wait_ready()
    inner_report.wait_ready()
    return run, outer_report, inner_report


@test("a tool whose tree holds a tool with a tree: SIGKILL of the outer one ends all", backends=BACKENDS)
def nested_killed(cell, backend):
    run, *reports = start_nested(cell, backend)
    started = now()
    run.signal(signal.SIGKILL)
    for report in reports:
        expect(report.wait_end(5), "a member outlives the tool")
    took = now() - started
    expect(run.wait_itself(5) == -signal.SIGKILL, f"{run}")
    expect(took < 10 * WINDOW_SECONDS * kernel.PATIENCE, f"the last member died {1000 * took:.0f} ms after the tool")
    # The inner owner died with its helper: the record of its tree, in which nobody lives, is a sweep's.
    expect(cell.tool("sweep")[0] == 0, "sweep failed")
    expect(cell.wait_clean(5), "something is left")
    cell.expect_canary()
    return f"{1000 * took:.1f} ms"


def terms(report):
    return sum(line.startswith(f"signal {int(signal.SIGTERM)} ") for line in report.lines)


@test("helper, kill, watch and sweep at work on one dying tree: TERM arrives once", backends=BACKENDS)
def one_term(cell, backend):
    """The tool is stopped, so that its helper begins the end; then it is killed, so that watch and sweep have a say."""
    watch = cell.start([cell.host.cgtree, "watch", f"--records={cell.records}"])
    report, run = start_tree(cell, backend, "--grace=700ms", payload=("tell-signals",))
    identity = cell.record_ids()[0]
    helper = helper_of(run)
    wedge(run)
    kill = cell.start([cell.host.cgtree, "kill", identity])
    os.kill(helper, signal.SIGTERM)
    expect(report.wait(lambda: terms(report) > 0, 5), f"no TERM: {report.lines}")
    run.signal(signal.SIGKILL)
    sweep = cell.start([cell.host.cgtree, "sweep", f"--records={cell.records}"])
    expect(kill.wait(10) in (0, 3), f"{kill}")
    expect(sweep.wait(10) == 0, f"{sweep}")
    expect(report.wait_end(5), "the tree lives")
    expect(run.wait_itself(5) == -signal.SIGKILL, f"{run}")
    expect(terms(report) == 1, f"TERM arrived {terms(report)} times: {report.lines}")
    watch.signal(signal.SIGTERM)
    expect(watch.wait(5) == 0, f"{watch}")
    expect(cell.wait_clean(5), "something is left")
    cell.expect_canary()
