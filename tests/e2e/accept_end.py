"""`kill`, `list`, `sweep`: from the records alone, exact, and nothing on a guess."""

import json
import os
import signal

from cell import Skipped, expect
from kernel import Cgroup, now, scaled, wait_readable
from registry import BACKENDS, test


def start_tree(cell, backend, *options, payload=("canary",), end="wait", ready=True):
    report = cell.report()
    run = cell.run(f"--backend={backend}", *options, command=[cell.payload(payload[0]), *payload[1:],
                                                              f"--report={report.path}", f"--end={end}"])
    if ready:
        report.wait_ready()
    return report, run


def orphan_tree(cell, backend, *options, payload=("setsid-child",)):
    """A tree whose owner was killed, and its helper with it: (its report, its id, its record)."""
    before = set(cell.record_ids())
    report, run = start_tree(cell, backend, *options, payload=payload)
    identity = (set(cell.record_ids()) - before).pop()
    record = cell.record(identity)
    cell.kill_with_helpers(run)
    expect(report.alive() and not report.ended, "the tree did not outlive its owner and helper")
    return report, identity, record


def expect_code(pair, wanted, text=""):
    code, running = pair
    expect(code == wanted, f"status {code}, not {wanted}: {running}")
    expect(text in running.stderr, f"{text!r} is not in {running.stderr!r}")
    expect(all(line.startswith("cgtree: ") for line in running.stderr.splitlines()), f"stderr: {running.stderr!r}")
    return running


@test("kill by id, by name, by the beginning of an id; 3 for none and for several", backends=BACKENDS)
def kill_names(cell, backend):
    trees = [start_tree(cell, backend, f"--name=tree-{number}") for number in range(3)]
    ids = cell.record_ids()
    expect(len(ids) == 3, f"records: {ids}")
    expect_code(cell.tool("kill", "no-such-tree"), 3, "no-such-tree")
    expect_code(cell.tool("kill", "0000000000000000"), 3)
    expect_code(cell.tool("kill", "tree-"), 3)  # the beginning of a name is not a name
    by_name = {cell.record(identity)["name"]: identity for identity in ids}
    shared = os.path.commonprefix(ids)
    if shared:
        expect_code(cell.tool("kill", shared), 3, "several")
    expect_code(cell.tool("kill", "tree-0"), 0)
    expect(trees[0][0].wait_end(0.05), "the tree of that name lives")
    expect_code(cell.tool("kill", by_name["tree-1"]), 0)
    expect(trees[1][0].wait_end(0.05), "the tree of that id lives")
    expect_code(cell.tool("kill", by_name["tree-2"][:14]), 0)
    expect(trees[2][0].wait_end(0.05), "the tree of that beginning lives")
    for _, run in trees:
        expect(run.wait(5) == -signal.SIGTERM, f"{run}")
    cell.expect_clean()


@test("a name that is in use is refused, and free again afterwards", backends=BACKENDS)
def names_unique(cell, backend):
    report, run = start_tree(cell, backend, "--name=agent")
    second = cell.run(f"--backend={backend}", "--name=agent", command=["true"])
    expect(second.wait(5) == 125 and "agent" in second.stderr, f"{second}")
    expect(report.alive(), "the tree that had the name was touched")
    expect_code(cell.tool("kill", "agent"), 0)
    run.wait(5)
    third = cell.run(f"--backend={backend}", "--name=agent", command=["true"])
    expect(third.wait(5) == 0, f"{third}")
    cell.expect_clean()


@test("kill --now, --grace, --all and several at once", backends=BACKENDS)
def kill_ways(cell, backend):
    report, run = start_tree(cell, backend, "--grace=1h", payload=("term-ignorer", "--as-root"))
    started = now()
    expect_code(cell.tool("kill", "--now", cell.record_ids()[0]), 0)
    expect(now() - started < 2 and report.wait_end(0.05), "--now waited")
    expect(run.wait(5) == -signal.SIGKILL, f"{run}")
    trees = [start_tree(cell, backend, "--grace=1h", payload=("tell-signals",)) for _ in range(3)]
    kill = cell.start([cell.host.cgtree, "kill", f"--grace={scaled(1)}", *cell.record_ids()])
    for report, _ in trees:
        expect(report.wait(lambda: "signal 15 " in "\n".join(report.lines), 10), f"no TERM: {report.lines}")
    # one after the other, the first would be dead before the last got its TERM
    expect(all(report.alive() for report, _ in trees), "the graces do not run side by side")
    expect(kill.wait(10) == 0, f"{kill}")
    for report, run in trees:
        expect(report.wait_end(0.05) and run.wait(5) == -signal.SIGKILL, f"{run}")
    trees = [start_tree(cell, backend) for _ in range(2)]
    expect_code(cell.tool("kill", "--all"), 0)
    for report, run in trees:
        expect(report.wait_end(0.05) and run.wait(5) == -signal.SIGTERM, f"{run}")
    expect_code(cell.tool("kill", "--all"), 0)
    cell.expect_clean()


@test("kill uses the record's own grace", backends=BACKENDS)
def record_grace(cell, backend):
    report, run = start_tree(cell, backend, "--grace=300ms", payload=("term-ignorer", "--as-root"))
    started = now()
    expect_code(cell.tool("kill", cell.record_ids()[0]), 0)
    expect(0.28 < now() - started < 2, f"took {now() - started:.2f} s")
    expect(run.wait(5) == -signal.SIGKILL, f"{run}")
    cell.expect_clean()


@test("kill --signal sends once and ends nothing", backends=BACKENDS)
def kill_signal(cell, backend):
    report, run = start_tree(cell, backend, payload=("tell-signals",), end="trap:5")
    for word, number in (("USR1", 10), ("SIGUSR2", 12), ("1", 1)):
        expect_code(cell.tool("kill", f"--signal={word}", cell.record_ids()[0]), 0)
        expect(report.wait(lambda: any(line.startswith(f"signal {number} ") for line in report.lines), 5),
               f"{word} did not arrive: {report.lines}")
    expect(report.alive() and len(cell.record_ids()) == 1, "the tree was ended")
    expect_code(cell.tool("kill", cell.record_ids()[0]), 0)
    expect(run.wait(5) == 5, f"{run}")
    report.wait_end(1)
    seen = [line.split()[1] for line in report.lines if line.startswith("signal ")]
    expect(all(seen.count(number) == 1 for number in ("1", "10", "12", "15")), f"not once each: {seen}")
    cell.expect_clean()


@test("two enders at once: TERM arrives once", backends=BACKENDS)
def one_ender(cell, backend):
    report, run = start_tree(cell, backend, "--grace=500ms", payload=("tell-signals",))
    identity = cell.record_ids()[0]
    kills = [cell.start([cell.host.cgtree, "kill", identity]) for _ in range(3)]
    run.signal(signal.SIGTERM)
    for kill in kills:
        expect(kill.wait(10) in (0, 3), f"{kill}")
    expect(run.wait(10) in (-signal.SIGTERM, -signal.SIGKILL), f"{run}")
    expect(report.wait_end(0.05), "the tree lives")
    seen = [line.split()[1] for line in report.lines if line.startswith("signal ")]
    expect(seen.count("15") == 1, f"TERM arrived {seen.count('15')} times")
    cell.expect_clean()


@test("kill: usage errors give 2 and a message")
def kill_usage(cell):
    for arguments in ([], ["--no-such-option"], ["--grace=soon", "x"], ["--signal=NOSUCH", "x"], ["--all", "x"],
                      ["--now", "--grace=1s", "x"], ["--grace"]):
        running = expect_code(cell.tool("kill", *arguments), 2)
        expect(running.stderr.count("\n") == 1, f"{arguments}: {running.stderr!r}")
    for verb in ("list", "sweep"):
        running = expect_code(cell.tool(verb, "--no-such-option"), 2, "--no-such-option")
        running = expect_code(cell.tool(verb, "stranger"), 2, "stranger")
    running = expect_code(cell.tool("no-such-verb"), 2, "no-such-verb")
    cell.expect_clean()


@test("list shows a tree, to people and to programs", backends=BACKENDS)
def list_trees(cell, backend):
    report, run = start_tree(cell, backend, "--name=shown")
    identity = cell.record_ids()[0]
    running = expect_code(cell.tool("list"), 0)
    expect(identity in running.stdout and "shown" in running.stdout, f"{running}")
    trees = json.loads(expect_code(cell.tool("list", "--json"), 0).stdout)
    expect(trees["version"] == 1 and [tree["id"] for tree in trees["trees"]] == [identity], f"{trees}")
    expect(trees["bad_records"] == [], f"{trees}")
    expect_code(cell.tool("kill", "shown"), 0)
    run.wait(5)
    trees = json.loads(expect_code(cell.tool("list", "--json"), 0).stdout)
    expect(trees["trees"] == [], f"{trees}")
    cell.expect_clean()


@test("the record holds what the format says", backends=BACKENDS)
def record_fields(cell, backend):
    report, run = start_tree(cell, backend, "--name=fields", "--grace=7s", payload=("canary",))
    record = cell.record()
    expect(record["version"] == 1 and record["name"] == "fields" and record["lifetime"] == "owner", f"{record}")
    expect(record["owner"]["pid"] == run.pid and record["owner"]["comm"] == "cgtree", f"{record['owner']}")
    with open("/proc/sys/kernel/random/boot_id") as file:
        expect(record["boot_id"] == file.read().strip(), f"{record['boot_id']}")
    expect(record["pid_namespace"] == os.stat("/proc/self/ns/pid").st_ino, "pid namespace")
    expect(record["cgroup_namespace"] == os.stat("/proc/self/ns/cgroup").st_ino, "cgroup namespace")
    with open(f"/proc/{run.pid}/stat") as file:
        expect(record["owner"]["start_time"] == int(file.read().rpartition(")")[2].split()[19]), "start time")
    expect(record["grace_usec"] == 7000000 and record["command"] == "canary", f"{record}")
    path = os.path.join(cell.records, f"{cell.record_ids()[0]}.json")
    status = os.stat(path)
    expect(status.st_mode & 0o7777 == 0o600 and status.st_nlink == 2, f"mode {status.st_mode:o}, {status.st_nlink} links")
    if backend == "subtree":
        tree = cell.tree_cgroup()
        expect(record["cgroup_id"] == os.stat(tree.path).st_ino, "cgroup id")
        expect(os.getxattr(tree.path, "user.cgtree.id").decode() == record["id"], "xattr")
        expect(record["group"] is None, f"{record}")
    else:
        expect(record["group"]["birth_cgroup_id"] == os.stat(cell.cgroup.path).st_ino, f"{record['group']}")
        expect(record["group"]["pgid"] == int(report.member("canary")["pgid"]), f"{record['group']}")
    run.signal(signal.SIGTERM)
    run.wait(5)
    cell.expect_clean()


@test("J44 sweep ends the trees of a killed owner, and only those; a second sweep does nothing", backends=BACKENDS)
def sweep_twice(cell, backend):
    kept, kept_run = start_tree(cell, backend, "--name=kept")
    report, identity, record = orphan_tree(cell, backend)
    told = json.loads(expect_code(cell.tool("sweep", "--dry-run", "--json"), 0).stdout)
    decisions = {entry["id"]: entry["decision"] for entry in told["decisions"]}
    expect(decisions.get(identity) == "would end" and told["dry_run"] is True, f"{told}")
    expect(report.alive() and not report.ended, "the dry run ended it")
    told = json.loads(expect_code(cell.tool("sweep", "--json"), 0).stdout)
    expect(report.wait_end(2), "the orphaned tree lives")
    expect(identity not in cell.record_ids(), "its record is left")
    expect(kept.alive() and len(cell.record_ids()) == 1, "the tree of a living owner was touched")
    told = json.loads(expect_code(cell.tool("sweep", "--json"), 0).stdout)
    expect(told["ended"] == 0, f"the second sweep: {told}")
    expect_code(cell.tool("kill", "kept"), 0)
    kept_run.wait(5)
    cell.expect_clean()


@test("two sweeps at once end everything once", backends=BACKENDS)
def sweeps_at_once(cell, backend):
    reports = [orphan_tree(cell, backend)[0] for _ in range(3)]
    sweeps = [cell.start([cell.host.cgtree, "sweep", f"--records={cell.records}"]) for _ in range(2)]
    for sweep in sweeps:
        expect(sweep.wait(15) == 0, f"{sweep}")
    for report in reports:
        expect(report.wait_end(2), "a tree lives")
    cell.expect_clean()


@test("a tree inside a tree is ended with the outer one", backends=BACKENDS)
def nested_trees(cell, backend):
    report = cell.report()
    inner = [cell.host.cgtree, "run", "-q", f"--backend={backend}", "--grace=20s", "--", cell.payload("setsid-child"),
             f"--report={report.path}"]
    run = cell.run(f"--backend={backend}", "--name=outer", "--grace=20s", command=inner)
    report.wait_ready()
    expect(len(cell.record_ids()) == 2, f"records: {cell.record_ids()}")
    expect_code(cell.tool("kill", "outer"), 0)
    expect(report.wait_end(0.05), "the inner tree lives")
    run.wait(5)
    cell.expect_clean()


@test("a tree inside a killed tree leaves no record after a sweep", backends=BACKENDS)
def nested_killed(cell, backend):
    report = cell.report()
    inner = [cell.host.cgtree, "run", "-q", f"--backend={backend}", "--", cell.payload("setsid-child"),
             f"--report={report.path}"]
    run = cell.run(f"--backend={backend}", "--name=outer", command=inner)
    report.wait_ready()
    expect_code(cell.tool("kill", "--now", "outer"), 0)
    expect(report.wait_end(0.2), "the inner tree lives")
    run.wait(5)
    expect_code(cell.tool("sweep"), 0)
    cell.expect_clean()


def write_record(cell, name, record):
    path = os.path.join(cell.records, f"{name}.json")
    with open(path, "w") as file:
        file.write(record if isinstance(record, str) else json.dumps(record))
    os.chmod(path, 0o600)
    return path


@test("B11 records with pids that mean a crowd, and other nonsense, are refused and kept", backends=BACKENDS)
def bad_records(cell, backend):
    report, identity, good = orphan_tree(cell, backend)
    expect_code(cell.tool("sweep"), 0)
    expect(report.wait_end(2) and cell.record_ids() == [], "the tree or its record is left")
    own = os.getpgrp()
    live, live_run = start_tree(cell, backend, "--name=bystander")
    bad = {}
    for number, change in enumerate((
            {"owner": {**good["owner"], "pid": 0}}, {"owner": {**good["owner"], "pid": 1}},
            {"owner": {**good["owner"], "pid": -1}}, {"owner": {**good["owner"], "pid": 2 ** 40}},
            {"group": {"pgid": 0, "start_time": 1, "birth_cgroup_id": 1}, "backend": "group", "cgroup": None},
            {"group": {"pgid": 1, "start_time": 1, "birth_cgroup_id": 1}, "backend": "group", "cgroup": None},
            {"group": {"pgid": -1, "start_time": 1, "birth_cgroup_id": 1}, "backend": "group", "cgroup": None},
            {"cgroup": "/../" + (good["cgroup"] or "x"), "backend": "subtree", "group": None, "cgroup_id": 5},
            {"cgroup": "relative", "backend": "subtree", "group": None, "cgroup_id": 5},
            {"version": 2}, {"version": "1"}, {"id": "x" * 16}, {"boot_id": 7})):
        name = f"{number:016d}"
        bad[name] = write_record(cell, name, {**good, "id": name, **change})
    for number, text in enumerate(("", "{", "[]", "null", '{"version": 1}', "\0" * 64, "x" * 70000), 50):
        name = f"{number:016d}"
        bad[name] = write_record(cell, name, text)
    contents = {path: open(path, "rb").read() for path in bad.values()}
    code, sweep = cell.tool("sweep")
    expect(code == 1, f"status {code}: {sweep}")
    for name, path in bad.items():
        expect(name in sweep.stderr, f"{name} is not named: {sweep.stderr}")
        expect(open(path, "rb").read() == contents[path], f"{name} was changed")
        code, kill = cell.tool("kill", "--now", name)
        expect(code in (1, 3), f"{name}: kill gave {code}: {kill}")
    code, shown = cell.tool("list", "--json")
    expect(code == 1 and len(json.loads(shown.stdout)["bad_records"]) == len(bad), f"{shown}")
    expect(live.alive() and own == os.getpgrp(), "a bystander was hit")
    cell.expect_canary()
    for path in bad.values():
        os.unlink(path)
    expect_code(cell.tool("kill", "bystander"), 0)
    live_run.wait(5)
    cell.expect_clean()


@test("a record that is a symlink, a FIFO, a directory or writable by others is refused")
def odd_files(cell):
    report, identity, record = orphan_tree(cell, "subtree")
    path = os.path.join(cell.records, f"{identity}.json")
    real = os.path.join(cell.dir, "real.json")
    os.rename(path, real)
    makers = (lambda: os.symlink(real, path), lambda: os.mkfifo(path, 0o600), lambda: os.mkdir(path, 0o700),
              lambda: (os.link(real, path), os.chmod(path, 0o666)))
    for make in makers:
        make()
        for arguments in (["sweep"], ["kill", "--now", identity]):
            code, running = cell.tool(*arguments, seconds=10)
            expect(code == 1, f"{arguments}: {running}")
        expect(report.alive() and not report.ended, "the tree was ended on the word of an odd file")
        os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    os.chmod(real, 0o600)
    os.rename(real, path)
    expect_code(cell.tool("sweep"), 0)
    expect(report.wait_end(2), "the tree lives")
    cell.expect_clean()


@test("J47 a record of another boot is dropped, nothing is signalled")
def other_boot(cell):
    report, identity, record = orphan_tree(cell, "subtree")
    path = os.path.join(cell.records, f"{identity}.json")
    original = open(path).read()
    other = record["boot_id"][:-1] + ("0" if record["boot_id"][-1] != "0" else "1")
    write_record(cell, identity, original.replace(record["boot_id"], other))
    expect_code(cell.tool("sweep"), 0)
    expect(report.alive() and not report.ended, "a tree was ended on the word of another boot's record")
    expect(identity not in cell.record_ids(), "the void record is left")
    write_record(cell, identity, original)
    expect_code(cell.tool("sweep"), 0)
    expect(report.wait_end(2), "the tree lives")
    cell.expect_clean()


@test("a record of another pid namespace is skipped, not judged")
def other_namespace(cell):
    report, identity, record = orphan_tree(cell, "subtree")
    path = os.path.join(cell.records, f"{identity}.json")
    original = open(path).read()
    write_record(cell, identity, {**record, "pid_namespace": record["pid_namespace"] + 1})
    cell.tool("sweep")
    expect(report.alive() and not report.ended and identity in cell.record_ids(), "it was judged")
    write_record(cell, identity, original)
    expect_code(cell.tool("sweep"), 0)
    expect(report.wait_end(2), "the tree lives")
    cell.expect_clean()


@test("a record that names a stranger's cgroup ends nothing")
def strange_cgroup(cell):
    """The right path with a wrong inode, and a cgroup that is there but does not carry the id."""
    report, identity, record = orphan_tree(cell, "subtree")
    path = os.path.join(cell.records, f"{identity}.json")
    original = open(path).read()
    stranger = cell.cgroup.make("stranger")
    for change in ({"cgroup_id": record["cgroup_id"] + 1},
                   {"cgroup": stranger.name, "cgroup_id": os.stat(stranger.path).st_ino},
                   {"cgroup": cell.cgroup.name, "cgroup_id": os.stat(cell.cgroup.path).st_ino},
                   {"cgroup": "/", "cgroup_id": 1}):
        write_record(cell, identity, {**record, **change})
        for arguments in (["sweep"], ["kill", "--now", identity]):
            cell.tool(*arguments)
            expect(report.alive() and not report.ended, f"{arguments} with {change} ended the tree")
            cell.expect_canary()
            if identity not in cell.record_ids():
                write_record(cell, identity, {**record, **change})
    write_record(cell, identity, original)
    os.rmdir(stranger.path)
    expect_code(cell.tool("sweep"), 0)
    expect(report.wait_end(2), "the tree lives")
    cell.expect_clean()


@test("G25 a tree left frozen by its dead owner is swept")
def frozen_tree(cell):
    report, run = start_tree(cell, "subtree", payload=("setsid-child",))
    tree = cell.tree_cgroup()
    tree.write("cgroup.freeze", "1")
    cell.kill_with_helpers(run)
    expect_code(cell.tool("sweep"), 0)
    expect(report.wait_end(2), "the frozen tree lives")
    cell.expect_clean()


@test("a living owner's frozen tree is ended by kill and by the timeout")
def frozen_ended(cell):
    report, run = start_tree(cell, "subtree", "--grace=300ms", payload=("setsid-child",))
    cell.tree_cgroup().write("cgroup.freeze", "1")
    expect_code(cell.tool("kill", cell.record_ids()[0]), 0)
    expect(report.wait_end(0.05), "the frozen tree lives")
    run.wait(5)
    report, run = start_tree(cell, "subtree", "--grace=300ms", f"--timeout={scaled(0.6)}", payload=("setsid-child",))
    cell.tree_cgroup().write("cgroup.freeze", "1")
    expect(run.wait(5) == 124 and report.wait_end(0.05), f"{run}")
    cell.expect_clean()


def root_member(cell, report):
    """A script for user 65534 that starts a member which is wholly root's, by a set-uid program."""
    if os.statvfs(cell.dir).f_flag & os.ST_NOSUID:
        raise Skipped("set-uid programs get no rights here")
    helper = os.path.join(cell.dir, "set-uid")
    with open(cell.payload("caller"), "rb") as source, open(helper, "wb") as target:
        target.write(source.read())
    os.chmod(helper, 0o4755)
    os.chown(cell.records, 65534, 65534)
    return f"{helper} --uid=0 {cell.payload('canary')} --report={report.path} & exec sleep 60"


def require_root_member(report):
    member = report.member("canary")
    if member is None or member["uid"] != "0":
        raise Skipped("set-uid programs get no rights here")
    return member


@test("A9 a group whose member may not be signalled: the survivor is named", users=("root",))
def survivor_named(cell):
    report = cell.report()
    script = root_member(cell, report)
    run = cell.start([*cell.as_nobody(), cell.host.cgtree, "run", "--backend=group", "--grace=200ms",
                      f"--timeout={scaled(0.7)}", "--", "sh", "-c", script])
    report.wait_ready()
    survivor = require_root_member(report)
    code = run.wait_itself(20)
    run.drain("stderr")
    expect(code == 125, f"status {code}, as if all were well: {run}")
    expect(survivor["pid"] in run.stderr, f"the survivor {survivor['pid']} is not named: {run.stderr!r}")
    cell.expect_canary()
    os.kill(int(survivor["pid"]), signal.SIGKILL)
    expect(wait_readable(survivor["pidfd"], 5), "the survivor lives")


@test("A9 an unprivileged user ends a member that is root's, in a subtree", users=("root",))
def foreign_member(cell):
    report = cell.report()
    base = cell.cgroup.make("delegated")
    for name in ("", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"):
        os.chown(os.path.join(base.path, name), 65534, 65534)
    script = root_member(cell, report)
    run = cell.start([cell.payload("caller"), f"--cgroup={base.path}", *cell.as_nobody(), cell.host.cgtree, "run", "--backend=subtree", "--grace=200ms",
                      f"--timeout={scaled(0.7)}", "--", "sh", "-c", script])
    report.wait_ready()
    require_root_member(report)
    code = run.wait(10)
    expect(code == 124, f"status {code}: {run}")
    expect(report.wait_end(0.05), "root's member lives")
    expect(base.below() == [], f"left: {[group.path for group in base.below()]}")
    os.rmdir(base.path)
    cell.expect_clean()


@test("H29 a zombie root does not keep a tree alive for kill", backends=BACKENDS)
def zombie_root(cell, backend):
    """The owner is stopped and cannot reap: kill decides by what the kernel says of the living."""
    report, run = start_tree(cell, backend, "--grace=20s")
    run.signal(signal.SIGSTOP)
    started = now()
    expect_code(cell.tool("kill", cell.record_ids()[0]), 0)
    expect(now() - started < 3, f"took {now() - started:.1f} s")
    expect(report.wait_end(0.05), "the tree lives")
    run.signal(signal.SIGCONT)
    expect(run.wait(5) == -signal.SIGTERM, f"{run}")
    cell.expect_clean()


@test("a directory that a dead owner left is removed by sweep, one of a living owner is not")
def leftover_directories(cell):
    report, identity, record = orphan_tree(cell, "subtree")
    tree = cell.tree_cgroup(identity)
    owner = Cgroup(os.path.dirname(os.path.dirname(tree.path)))
    expect(tree.kill() and report.wait_end(2), "the tree lives")
    expect(owner.exists(), f"{owner.path}")
    kept, run = start_tree(cell, "subtree")
    expect_code(cell.tool("sweep"), 0)
    expect(not owner.exists(), f"{owner.path} is left")
    expect(kept.alive() and cell.tree_cgroup().exists(), "a living owner's directory was touched")
    run.signal(signal.SIGTERM)
    run.wait(5)
    cell.expect_clean()
