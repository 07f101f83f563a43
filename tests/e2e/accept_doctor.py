"""What `cgtree doctor` finds, on machines of which it is known."""

import json
import os
import re
import signal

from accept_host import private_mounts
from cell import expect
from kernel import cgroup2_mount, has_ended
from registry import test

DOCTOR = ["doctor", "--json"]


def findings(run, status, guarantee):
    code = run.wait(20)
    expect(code == status and run.stderr == "", f"status {code}: {run}")
    said = json.loads(run.stdout)
    expect(said["version"] == 1 and said["guarantee"] == guarantee, f"{said}")
    found = {entry["topic"]: entry for entry in said["findings"]}
    expect(len(found) == len(said["findings"]), "a topic comes twice")
    return found


def doctor(cell, *options, **rest):
    return cell.start([cell.host.cgtree, *DOCTOR, *options], **rest)


@test("doctor: the full guarantee where the base is ours; what it tried in cgroups is gone")
def full(cell):
    found = findings(doctor(cell), 0, "whole")
    expect(found["placement"]["finding"] == "good" and found["placement"]["text"].startswith("subtree, in /"), f"{found['placement']}")
    expect(all(entry["finding"] in ("good", "note") and entry["advice"] is None for entry in found.values()), f"{found}")
    for topic in ("cgroup2", "own_cgroup", "helpers", "records"):
        expect(found[topic]["finding"] == "good", f"{found[topic]}")
    expect(cgroup2_mount()[0] + "," in found["cgroup2"]["text"], f"{found['cgroup2']}")
    expect(os.uname().release in found["kernel"]["text"], f"{found['kernel']}")
    expect({"cgroup_kill", "clone_into_cgroup", "birth_bug", "pidfs", "system_manager", "user_manager", "limits"} <= set(found),
           f"{sorted(found)}")
    cell.expect_clean()


@test("doctor: the bug of cgroup.kill is seen exactly where it is")
def kill_bug(cell):
    """By a payload whose main thread has exited, and by the kernel's own answer to one write."""
    found = findings(doctor(cell), 0, "whole")
    group = cell.cgroup.make("tried")
    if not os.path.exists(os.path.join(group.path, "cgroup.kill")):
        expect("kill_bug" not in found and found["cgroup_kill"]["finding"] == "note", f"{found}")
        os.rmdir(group.path)
        return
    report = cell.report()
    cell.start(["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', group.path, cell.payload("dead-leader"),
                f"--report={report.path}"])
    report.wait_ready()
    group.write("cgroup.kill", "1")
    spared = not report.wait_end(0.5)
    expect((found["kill_bug"]["finding"] == "note") == spared, f"spared: {spared}, {found['kill_bug']}")
    group.kill()
    expect(report.wait_end(2) and group.remove(), "it is left")


@test("doctor: cgroup2 mounted read-only: reduced, with the line that helps", users=("root",))
def read_only(cell):
    point, _ = cgroup2_mount()
    run = private_mounts(cell, f'mount --bind {point} {point}; mount -o remount,ro,bind {point}; exec "$1" doctor --json')
    found = findings(run, 1, "group")
    expect("read-only" in found["cgroup2"]["text"], f"{found['cgroup2']}")
    placement = found["placement"]
    expect(placement["finding"] == "reduced" and "read-only" in placement["text"] and placement["advice"] == f"mount -o remount,rw {point}",
           f"{placement}")
    cell.expect_clean()


@test("doctor: no cgroup2: reduced, with the line that helps", users=("root",))
def no_cgroup2(cell):
    point, _ = cgroup2_mount()
    found = findings(private_mounts(cell, f'umount -l {point}; exec "$1" doctor --json'), 1, "group")
    expect(found["cgroup2"]["finding"] == "note" and "not mounted" in found["cgroup2"]["text"], f"{found['cgroup2']}")
    expect("mount -t cgroup2" in found["placement"]["advice"], f"{found['placement']}")
    cell.expect_clean()


@test("doctor: a base that is not ours: reduced; for people the advice comes last")
def not_ours(cell):
    run = cell.start([cell.host.cgtree, "doctor"], environment={"CGTREE_BASE": "/no-such-cgroup"})
    code = run.wait(20)
    lines = run.stdout.splitlines()
    expect(code == 1 and run.stderr == "", f"status {code}: {run}")
    placement = next((line for line in lines if line.startswith("reduced")), "")
    expect(re.match(r"reduced  placement +group: .*/no-such-cgroup", placement), f"{run}")
    conclusion = next(number for number, line in enumerate(lines) if line.startswith("Trees started from here have the weaker"))
    expect(conclusion > lines.index(placement) and all(line.startswith("    ") for line in lines[conclusion + 2:]), f"{run}")
    cell.expect_clean()


@test("doctor: broken where there can be no record or no helper")
def broken(cell):
    found = findings(doctor(cell, f"--records={cell.dir}/a/b/c"), 2, None)
    expect(found["records"]["finding"] == "broken" and "/a/b/c" in found["records"]["text"], f"{found['records']}")
    found = findings(doctor(cell, environment={"CGTREE_LIBEXEC": cell.dir}), 2, None)
    expect(found["helpers"]["finding"] == "broken" and found["helpers"]["advice"], f"{found['helpers']}")
    cell.expect_clean()


@test("doctor: killed in the middle of what it tries, it leaves no process and no cgroup")
def killed(cell):
    caught = 0
    for _ in range(3):
        run = doctor(cell)
        while not has_ended(run.pidfd):
            if any("/trees/" in group.path and group.populated() for group in cell.cgroup.below()):
                run.signal(signal.SIGKILL)
                caught += 1
                break
        run.wait_itself(10)
        expect(cell.wait_clean(5), "something is left")
    cell.expect_clean()
    expect(caught > 0, "it was never caught at it")
