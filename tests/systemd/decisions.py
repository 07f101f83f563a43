"""What is decided about placement in one place, with the process right where the manager has put it and an environment as it
is there: no records directory is named, no base."""

import collections
import json
import os
import re
import select
import shutil
import signal
import tempfile
import traceback

import kernel
import places
import scopes
from cell import Failed, Report, Running, Skipped, expect
from host import Result
from kernel import Cgroup, deadline_in, has_ended, learn_patience, now, own_cgroup

HINT = "running in a process group, with the weaker guarantee (--quiet hides this): "


Setting = collections.namedtuple("Setting", "place version cgtree payloads")


class Scene:
    def __init__(self, setting):
        place, version, self.cgtree, self.payloads = setting
        self.place = place
        self.auto, self.subtree, self.scope, self.base_self = (
            places.expected(entry, version) for entry in (place.auto, place.subtree, place.scope, place.base_self))
        self.dir = tempfile.mkdtemp(prefix="decisions-")
        self.own = own_cgroup()
        self.running, self.reports = [], []

    def close(self):
        for running in self.running:
            running.close()
        for report in self.reports:
            for pid in report.alive():
                os.kill(pid, signal.SIGKILL)
            report.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self, *argv, base=None, tool=None):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CGTREE_")}
        if base:
            environment["CGTREE_BASE"] = base
        running = Running([tool or self.cgtree, *argv], env=environment)
        self.running.append(running)
        return running

    def execute(self, *argv):
        """Another program, to its good end."""
        running = Running(argv)
        self.running.append(running)
        code = running.wait(30)
        expect(code == 0, f"status {code}: {running}")
        return running

    def payload(self, name, *options):
        report = Report(os.path.join(self.dir, f"report-{len(self.reports)}"))
        self.reports.append(report)
        return report, [os.path.join(self.payloads, name), f"--report={report.path}", *options]

    def run(self, *options, base=None):
        """A tree with an escapee, up to where it runs."""
        report, command = self.payload("setsid-child", "--end=exit:7")
        running = self.start("run", *options, "--", *command, base=base)
        await_ready(report, running)
        return report, running

    def finish(self, report, running):
        report.go()
        code = running.wait(10)
        expect(code == 7 and report.wait_end(0.1), f"status {code}, members {report.alive()}: {running}")
        expect(self.homes() == [], f"left: {self.homes()}")
        scopes.expect_gone(report.member("escapee")["cgroup"])

    def placement(self, report):
        """As the escapee shows it."""
        cgroup = report.member("escapee")["cgroup"]
        kind = places.kind_of(cgroup, self.own)
        expect(kind, f"the escapee is in {cgroup}")
        return kind

    def homes(self):
        own = Cgroup.own()
        return [entry.name for entry in os.scandir(own.path) if entry.name.startswith("cgtree-")]

    def told(self, running, reason):
        """One line, with the reason."""
        expect(re.fullmatch(re.escape(f"cgtree: {HINT}") + f"{places.REASONS[reason]}.*\n", running.stderr),
               f"not the reason that is expected: {running}")

    def refused(self, reason, *options, base=None):
        ran = os.path.join(self.dir, "ran")
        running = self.start("run", *options, "--", "touch", ran, base=base)
        code = running.wait(10)
        expect(code == 125 and not os.path.exists(ran), f"status {code}: {running}")
        expect(re.fullmatch(f"cgtree: {options[0]} cannot be had here: {places.REASONS[reason]}.*\n", running.stderr),
               f"not the reason that is expected: {running}")


def await_ready(report, running):
    """Until the payload runs, or the tool has ended without it."""
    poll = select.poll()
    for fd in (report.fd, running.pidfd):
        poll.register(fd, select.POLLIN)
    deadline = deadline_in(10)
    while not report.ready and not has_ended(running.pidfd) and poll.poll(max(0, deadline - now()) * 1000):
        report.pump(0)
    if not report.ready:
        code = running.wait(1) if has_ended(running.pidfd) else None
        raise Failed(f"it does not run: status {code}, {report.lines} {running}")


def in_place(scene):
    expect(places.is_there(scene.place, scene.own), f"this is {scene.own}")
    expect(os.getuid() == scene.place.uid, f"this is uid {os.getuid()}")


def auto(scene):
    report, running = scene.run()
    expect(scene.placement(report) == scene.auto, f"auto takes {scene.placement(report)}")
    scene.finish(report, running)
    if scene.auto == "group":
        scene.told(running, "auto")
    else:
        expect(running.stderr == "", f"{running}")


def quiet(scene):
    report, running = scene.run("--quiet")
    scene.finish(report, running)
    expect(running.stderr == "", f"{running}")


def whole(scene):
    if scene.auto == "group":
        scene.refused("auto", "--require=whole")
        return
    report, running = scene.run("--require=whole")
    expect(scene.placement(report) == scene.auto, f"it takes {scene.placement(report)}")
    scene.finish(report, running)
    expect(running.stderr == "", f"{running}")


def backend(scene, option, kind, reason):
    """It is what is asked for, or it is refused."""
    if kind is None:
        scene.refused(reason, option)
        return
    report, running = scene.run(option)
    expect(scene.placement(report) == kind, f"it takes {scene.placement(report)}")
    scene.finish(report, running)
    expect(running.stderr == "", f"{running}")


def subtree(scene):
    backend(scene, "--backend=subtree", scene.subtree, "auto")


def scope(scene):
    backend(scene, "--backend=scope", scene.scope, "scope")


def group(scene):
    backend(scene, "--backend=group", "group", None)


def base_self(scene):
    report, running = scene.run(base="self")
    expect(scene.placement(report) == (scene.base_self or "group"), f"it takes {scene.placement(report)}")
    scene.finish(report, running)
    if scene.base_self:
        expect(running.stderr == "", f"{running}")
    else:
        scene.told(running, "self")
        scene.refused("self", "--backend=subtree", base="self")


def elsewhere(scene):
    """A cgroup of the user's own, made below the user's manager: only from below there can it be reached."""
    made = Cgroup("/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice").make(f"base-{os.getpid()}")
    try:
        if scene.place.name == "session":
            report, running = scene.run(base=made.name)
            expect(scene.placement(report) == "group", f"it takes {scene.placement(report)}")
            scene.finish(report, running)
            scene.told(running, "elsewhere")
            scene.refused("elsewhere", "--require=whole", base=made.name)
            return
        report, running = scene.run(base=made.name)
        cgroup = report.member("escapee")["cgroup"]
        expect(cgroup.startswith(made.name + "/cgtree-"), f"the escapee is in {cgroup}")
        scene.finish(report, running)
        expect(running.stderr == "" and made.below() == [], f"{made.below()}: {running}")
    finally:
        made.kill()
        made.remove()


def nested(scene):
    """Inside a tree the placement is that of the tree around, and the tree around takes all with it."""
    report, command = scene.payload("setsid-child")
    running = scene.start("run", "--", scene.cgtree, "run", "--grace=20s", "--", *command)
    await_ready(report, running)
    inside = report.member("escapee")["cgroup"]
    depth = {"subtree": 2, "owner-scope": 2, "scope": 1, "group": 0}
    expect(inside.count("/trees/") == depth[scene.auto], f"the inner tree is in {inside}")
    running.signal(signal.SIGTERM)
    code = running.wait(10)
    expect(code == -signal.SIGTERM and report.wait_end(0.1), f"return code {code}: {running}")
    expect(scene.homes() == [], f"left: {scene.homes()}")


def default_records(scene):
    """Where records go when nobody says; the tools find them there, also after the death of the owner."""
    report, running = scene.run("--quiet")
    trees = json.loads(list_trees(scene).stdout)["trees"]
    identity = next((tree["id"] for tree in trees if tree["owner"]["pid"] == running.pid), None)
    path = os.path.join(scene.place.records, f"{identity}.json")
    expect(identity and os.path.exists(path), f"no record in {scene.place.records}: {trees}")
    running.signal(signal.SIGKILL)
    running.wait_itself(5)
    if scene.auto == "group":
        expect(report.wait_end(5), "the group's members outlive their owner")
    sweep = scene.start("sweep")
    code = sweep.wait(20)
    expect(code == 0 and report.wait_end(0.1) and not os.path.exists(path), f"sweep gave {code}: {sweep}")
    expect(scene.homes() == [], f"left: {scene.homes()}")


BONDS = ["TasksMax=50", "MemoryMax=500M", "DevicePolicy=closed"]


def bound(scene):
    """What binds a service is not shed by leaving it for a scope."""
    user = ["--user"] if scene.place.uid else []
    show = [scene.cgtree, "run", "--quiet", "--", "cat", "/proc/self/cgroup"]
    for bond in BONDS:
        service = ["systemd-run", *user, "--quiet", "--pipe", "--wait", "--collect", f"--property={bond}"]
        cgroup = re.search(r"^0::(.*)$", scene.execute(*service, *show).stdout, re.M)[1]
        expect(cgroup.endswith(".service"), f"with {bond} it is in {cgroup}")
        running = Running([*service, scene.cgtree, "run", "--backend=scope", "--", "touch", os.path.join(scene.dir, "ran")])
        scene.running.append(running)
        code = running.wait(30)
        expect(code == 125 and not os.path.exists(os.path.join(scene.dir, "ran")), f"status {code}: {running}")
        expect(f"would be left, which sets {bond.partition('=')[0]}: set Delegate=yes on it" in running.stderr, f"{running}")


def no_unit_left(scene):
    """After many runs in a row the manager knows none of their scopes, neither as failed."""
    name = f"left{os.getpid()}"  # others are at work here; a scope bears the name of its tree or of its owner
    tool = os.path.join(scene.dir, name)
    os.symlink(scene.cgtree, tool)
    for _ in range(20):
        running = scene.start("run", f"--name={name}", "--", "true", tool=tool)
        expect(running.wait(10) == 0 and running.stderr == "", f"{running}")
    user = ["--user"] if scene.place.uid else []
    deadline = deadline_in(10)
    listed = ["systemctl", *user, "list-units", "--all", "--plain", "--no-legend", f"*cgtree-{name}*"]
    while (left := scene.execute(*listed).stdout) and now() < deadline:
        select.select([], [], [], 0.1)
    expect(left == "", f"left: {left}")


GRACE, MORE = 0.3, 0.2  # what a stop may take: the grace of those who ignore TERM, and some more


def service_stopped(scene):
    """A service whose main process is the tool: everyone in it gets TERM at once. It stops within the grace, without KILL and
    without a failure; what systemd itself needs is seen in a service that has no trees."""
    empty, full = stop_of(scene, "empty", ["sleep", "1000"]), stop_of_tree(scene)
    expect(full - empty <= GRACE + MORE * kernel.PATIENCE, f"it took {full:.3f} s to stop, without a tree {empty:.3f} s")


def stop_of_tree(scene):
    report, command = scene.payload("term-ignorer")
    records = os.path.join(scene.dir, "records")
    os.mkdir(records, 0o700)
    took = stop_of(scene, "full", [scene.cgtree, "run", "--quiet", f"--records={records}", f"--grace={GRACE}s", "--", *command], report)
    expect(report.wait_end(0.1), "a member lives")
    expect(os.listdir(records) == [], f"left: {os.listdir(records)}")
    return took


def scope_stopped(scene):
    """The same for a scope of cgtree's, by whoever stops it."""
    empty = stop_of(scene, "empty", ["sleep", "1000"])
    report, command = scene.payload("term-ignorer")
    running = scene.start("run", f"--grace={GRACE}s", "--", *command)
    await_ready(report, running)
    cgroup = scopes.scope_of(report.member("root")["cgroup"])
    full = stop(scene, os.path.basename(cgroup.path), cgroup.path)
    code = running.wait(10)
    expect(code == -signal.SIGTERM and report.wait_end(0.1), f"return code {code}: {running}")
    expect(full - empty <= GRACE + MORE * kernel.PATIENCE, f"it took {full:.3f} s to stop, without a tree {empty:.3f} s")


def stop_of(scene, name, command, report=None):
    unit = f"stopped-{name}-{os.getpid()}.service"
    user = ["--user"] if scene.place.uid else []
    delegate = [option for option in scene.place.how if option.startswith("--property=Delegate")]
    scene.execute("systemd-run", *user, "--quiet", f"--unit={unit}", "--property=TimeoutStopSec=20s", *delegate, *command)
    if report:
        report.wait_ready(20)
    cgroup = "/sys/fs/cgroup" + show(scene, user, unit, "ControlGroup")
    expect(cgroup.endswith(unit) and os.path.exists(cgroup), f"its cgroup is {cgroup}")
    return stop(scene, unit, cgroup)


def stop(scene, unit, cgroup):
    user = ["--user"] if scene.place.uid else []
    started = now()
    scene.execute("systemctl", *user, "stop", unit)
    took = now() - started
    # one that systemd had to KILL would be there still, failed with a timeout
    expect(show(scene, user, unit, "Result") == "success" and show(scene, user, unit, "LoadState") == "not-found", "it has failed")
    expect(not os.path.exists(cgroup), f"left: {cgroup}")
    return took


def show(scene, user, unit, name):
    return scene.execute("systemctl", *user, "show", f"--property={name}", "--value", unit).stdout.strip()


def list_trees(scene):
    running = scene.start("list", "--json")
    code = running.wait(10)
    expect(code == 0, f"list gave {code}: {running}")
    return running


DECISIONS = {
    "the place is what it is called": in_place,
    "auto takes what is expected, and says why it is the weaker one": auto,
    "--quiet": quiet,
    "--require=whole": whole,
    "--backend=subtree": subtree,
    "--backend=scope": scope,
    "--backend=group": group,
    "CGTREE_BASE=self": base_self,
    "CGTREE_BASE of a cgroup elsewhere": elsewhere,
    "a tree inside a tree": nested,
    "records where they go by default": default_records,
    "what binds a service": bound,
    "no unit is left": no_unit_left,
    "its service is stopped": service_stopped,
    "its scope is stopped": scope_stopped,
}


BRIEF = [in_place, auto, base_self, default_records]
# what only some places are for
ONLY = {elsewhere: [place for place in places.PLACES if place.uid == places.TESTER],
        bound: [place for place in places.PLACES if place.auto == "owner-scope"],
        **{decision: [place for place in places.PLACES if place.auto in ("owner-scope", "scope")]
           for decision in (no_unit_left, scope_stopped)},
        service_stopped: [place for place in places.PLACES if "systemd-run" in place.how and place.uid != places.PLAIN]}


def tests(place, brief):
    return [(f"{place.name}/decision/{text}", decision) for text, decision in DECISIONS.items()
            if (decision in BRIEF or not brief) and place in ONLY.get(decision, [place])]


def judge(setting, name, decision):
    started = now()
    scene = Scene(setting)
    try:
        decision(scene)
        return Result(name, "passed", "", now() - started)
    except Skipped as reason:
        return Result(name, "skipped", str(reason), now() - started)
    except Failed as error:
        if scopes.met_slow_manager(scene.running):
            return Result(name, "skipped", scopes.TOO_SLOW, now() - started)
        return Result(name, "failed", str(error), now() - started)
    except Exception:
        return Result(name, "failed", traceback.format_exc(), now() - started)
    finally:
        scene.close()


def run(setting, chosen, report):
    learn_patience()
    for name, decision in chosen:
        report(judge(setting, name, decision))
