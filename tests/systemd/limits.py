"""Limits in one place of a guest: each holds, or is refused before anything starts.  They take controllers, which containers on a
hybrid machine do not have."""

import contextlib
import json
import os
import re
import signal
import sys

import kernel
from cell import Skipped, expect
from kernel import Cgroup, deadline_in, now

HOG = "hog = b'x' * (200 << 20)"
SPIN = "while True: pass"
# As many as it can, by all of them.
BOMB = "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(.01)"


def need_controllers():
    with open("/sys/fs/cgroup/cgroup.controllers") as file:
        missing = {"memory", "pids", "cpu"} - set(file.read().split())
    if missing:
        raise Skipped(f"no controllers in cgroup v2 on this machine: {', '.join(sorted(missing))}")


@contextlib.contextmanager
def leaf(scene):
    """Us in a cgroup of our own below the one that was handed over, as DelegateSubgroup= would do it: then the limited trees go
    beside it."""
    need_controllers()
    own = Cgroup.own()
    made = own.make("main")
    made.write("cgroup.procs", str(os.getpid()))
    try:
        yield own
        left = [cgroup.path for cgroup in own.below() if cgroup.path != made.path]
        expect(left == [], f"left: {left}")
    finally:
        for cgroup in own.below():
            if cgroup.path != made.path:
                cgroup.kill()
                cgroup.remove()
        for name in own.read("cgroup.subtree_control").split():
            own.write("cgroup.subtree_control", f"-{name}")
        own.write("cgroup.procs", str(os.getpid()))
        made.remove()


def trees_place(scene):
    """Where the trees of the delegated place go beside us; elsewhere a manager makes a scope for them."""
    need_controllers()
    return leaf(scene) if scene.place.name == "root-delegated" else contextlib.nullcontext()


def python(text):
    return [sys.executable, "-c", text]


def refused(running, name):
    """A user's manager may have been given some controllers, and not this one."""
    return kernel.has_ended(running.pidfd) and running.wait(1) == 125 and f"'{name}' controller" in running.stderr


def tree_of(scene, running, controller):
    """The cgroup of the tree that it runs, as soon as it is there; None: refused."""
    deadline = deadline_in(10)
    while now() < deadline and not refused(running, controller):
        listing = scene.start("list", "--json")
        expect(listing.wait(10) == 0, f"{listing}")
        for tree in json.loads(listing.stdout)["trees"]:
            if tree["owner"]["pid"] == running.pid and tree["members"]:
                return Cgroup("/sys/fs/cgroup" + tree["cgroup"])
    expect(kernel.has_ended(running.pidfd), f"no tree: {running}")
    return None


def out_of_memory(scene):
    """A child takes more than the tree may have: all of it dies, and that is said."""
    with trees_place(scene):
        report, command = scene.payload("setsid-child")
        running = scene.start("run", "--memory-max=64M", "--", "sh", "-c", '"$@" & python3 -c "$0"; echo went on', HOG, *command)
        code = running.wait(30)
        expect(code == -signal.SIGKILL and running.stdout == "", f"return code {code}: {running}")
        expect(report.wait_end(0.1), "a member lives")
        expect(running.stderr == "cgtree: out of memory: the kernel killed 'sh' with all of its tree (--memory-max=64M)\n",
               f"{running}")


def killed(scene):
    """An end by SIGKILL is no end by lack of memory."""
    with trees_place(scene):
        running = scene.start("run", "--memory-max=64M", "--", *python("import os; os.kill(os.getpid(), 9)"))
        code = running.wait(30)
        expect(code == -signal.SIGKILL and running.stderr == "", f"return code {code}: {running}")


def too_little_to_start(scene):
    with leaf(scene):
        running = scene.start("run", "--memory-max=4K", "--", "true")
        code = running.wait(30)
        expect(code in (126, -signal.SIGKILL) and running.stderr.startswith("cgtree: "), f"return code {code}: {running}")


def fork_bomb(scene):
    with trees_place(scene):
        running = scene.start("run", "--tasks-max=20", "--grace=0", "--", *python(BOMB))
        tree = tree_of(scene, running, "pids")
        if not tree:
            return
        deadline = deadline_in(20)
        while "max 0" in tree.read("pids.events") and now() < deadline:
            expect(int(tree.read("pids.current")) <= 20, "more tasks than it may have")
        expect("max 0" not in tree.read("pids.events"), "the limit was never reached")
        expect(int(tree.read("pids.current")) == 20, f"{tree.read('pids.current')} tasks")
        running.signal(signal.SIGTERM)
        code = running.wait(20)
        expect(code == -signal.SIGTERM, f"return code {code}: {running}")


def cpu_share(scene):
    """Half of one CPU, of which there are two."""
    with trees_place(scene):
        running = scene.start("run", "--cpu-max=50%", "--grace=0", "--", "sh", "-c", 'python3 -c "$0" & python3 -c "$0"', SPIN)
        tree = tree_of(scene, running, "cpu")
        if not tree:
            return
        deadline, usage = deadline_in(20), {}
        while usage.get("nr_periods", 0) < 10 and now() < deadline:
            usage = {name: int(value) for name, value in (line.split() for line in tree.read("cpu.stat").splitlines())}
        expect(tree.read("cpu.max") == "50000 100000\n", tree.read("cpu.max"))
        expect(usage["nr_throttled"] > 0, f"never throttled: {usage}")
        # a period is begun anew only while something runs
        expect(usage["usage_usec"] < (usage["nr_periods"] + 2) * 75000, f"more than its share: {usage}")
        running.signal(signal.SIGTERM)
        running.wait(20)


def main_process(scene):
    """As the main process of its service it goes out of the way, and back."""
    need_controllers()
    show = 'cut -d: -f3 /proc/self/cgroup; cd /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup); cat memory.max ../../leaf/cgroup.procs'
    delegate = [*(["--user"] if scene.place.uid else []), "--quiet", "--pipe", "--wait", "--property=Delegate=yes"]
    running = scene.execute("systemd-run", *delegate, scene.cgtree, "run", "--memory-max=64M", "--", "sh", "-c", show)
    lines = running.stdout.splitlines()
    expect(len(lines) >= 3 and lines[1] == str(64 << 20) and running.stderr == "", f"{running}")
    expect(re.search(r"\.service/cgtree-\d+-\w+/trees/\w{16}$", lines[0]), f"it is in {lines[0]}")


def beside_a_process(scene):
    """Others are in the cgroup that was handed over: refused, and they are named."""
    need_controllers()
    for option, name in (("--memory-max=1G", "memory"), ("--tasks-max=100", "tasks"), ("--cpu-max=50%", "cpu")):
        ran = os.path.join(scene.dir, "ran")
        running = scene.start("run", option, "--", "touch", ran)
        code = running.wait(20)
        expect(code == 125 and not os.path.exists(ran), f"return code {code}: {running}")
        expect(re.match(rf"cgtree: no limit of {name} can be had here: cgroup \S+ has processes of its own \(pid \d+ ",
                        running.stderr), f"{running}")
        expect(scene.homes() == [], f"left: {scene.homes()}")
        expect(Cgroup.own().read("cgroup.subtree_control").strip() == "", "controllers are left enabled")


def not_to_be_had(scene):
    """Nothing is started where a limit cannot be enforced."""
    ran = os.path.join(scene.dir, "ran")
    for options in (["--memory-max=1G"], ["--tasks-max=100", "--cpu-max=200%"], ["--memory-max=1G", "--backend=group"],
                    ["--cpu-max=50%", "--backend=subtree"]):
        running = scene.start("run", *options, "--", "touch", ran)
        code = running.wait(20)
        expect(code == 125 and not os.path.exists(ran), f"return code {code}: {running}")
        expect(re.match(r"cgtree: (no limit of|a process group cannot be limited in) ", running.stderr), f"{running}")


HOLD = {
    "out of memory": out_of_memory,
    "SIGKILL is not out of memory": killed,
    "a fork bomb": fork_bomb,
    "half a CPU": cpu_share,
}
DELEGATED = {
    **HOLD,
    "too little memory to start": too_little_to_start,
    "the main process of a service": main_process,
    "refused beside a process": beside_a_process,
}
OTHERS = {"refused where they cannot be had": not_to_be_had}
SCOPES = ["root-service", "user-service", "session"]


def tests(place):
    """The delegated place of root has all of them, and the places where a manager makes scopes those that hold."""
    chosen = DELEGATED if place.name == "root-delegated" else HOLD if place.name in SCOPES and place.auto != "group" else OTHERS
    return [(f"{place.name}/limits/{text}", function) for text, function in chosen.items()]
