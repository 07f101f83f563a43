"""Machines as they are: mounts, namespaces, permissions, frozen and odd cgroups, filters, full disks; and what is said of
wrong usage."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys

from cell import Skipped, expect
from kernel import cgroup2_mount, scaled
from registry import BACKENDS, test

IN_TREE = 'grep -q "^0::.*/cgtree-.*/trees/" /proc/self/cgroup'


def own_line(stderr, count):
    lines = stderr.splitlines()
    expect(len(lines) == count and all(line.startswith("cgtree: ") for line in lines), f"stderr: {stderr!r}")


def private_mounts(cell, script, **options):
    """A shell script in a mount namespace of its own, from inside the cell's cgroup."""
    if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skipped("no private mount namespace here")
    return cell.start(["unshare", "-m", "--propagation", "private", "sh", "-euc", script, "sh", cell.host.cgtree,
                       cell.dir], **options)


ALL_USERS = """
[ "$(id -u)" = 0 ] && ! ls -d /tmp/cgtree-[0-9]* >/dev/null 2>&1 || exit 77
as_nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
$as_nobody test -x "$1" || exit 77
mount -t tmpfs -o mode=1777 none /dev/shm
! [ -d /run/user ] || mount -t tmpfs none /run/user
unset CGTREE_RECORDS XDG_RUNTIME_DIR
$as_nobody "$1" run -q --backend=group -- sh -c 'echo $$ $PPID >/dev/shm/pids; exec sleep 1000' >/dev/null &
owner=$!
until [ -s /dev/shm/pids ]; do kill -0 $owner; sleep 0.01; done
read member reaper </dev/shm/pids
kill -STOP $reaper # it would end the tree
kill -KILL $owner
wait $owner || true
kill -KILL $reaper
"$1" sweep --records=/dev/shm/cgtree-65534 2>/dev/null && exit 2 # another user's: root does not trust it
[ "$(cut -d' ' -f3 /proc/$member/stat)" = S ] || exit 3
"$1" sweep --all-users
case "$(cut -d' ' -f3 /proc/$member/stat 2>/dev/null)" in '' | Z | X) ;; *) exit 4 ;; esac
[ -z "$(ls /dev/shm/cgtree-65534)" ] || exit 5
"$1" sweep --all-users --json
"""


@test("sweep --all-users ends what another user's dead owner left, as that user")
def all_users(cell):
    run = private_mounts(cell, ALL_USERS)
    code = run.wait(20)
    if code == 77:
        raise Skipped("needs root, a build that others can reach, and nobody's records in /tmp")
    expect(code == 0 and "user 65534: its owner is gone" in run.stdout and '"ended":\t0' in run.stdout, f"{code}: {run}")
    cell.expect_clean()


@test("H32 a hybrid machine: cgroup2 is found where it is mounted")
def hybrid(cell):
    point, _ = cgroup2_mount()
    if point == "/sys/fs/cgroup":
        raise Skipped("this machine is not hybrid")
    run = cell.run("--require=whole", command=["sh", "-c", IN_TREE])
    expect(run.wait(5) == 0 and run.stderr == "", f"{run}")
    cell.expect_clean()


@test("only cgroup2, at /sys/fs/cgroup, in a private mount namespace", users=("root",))
def unified(cell):
    if cgroup2_mount()[0] == "/sys/fs/cgroup":
        raise Skipped("this machine is so for all tests")
    run = private_mounts(cell, "mount -t cgroup2 none /sys/fs/cgroup; "
                               f"\"$1\" run --require=whole -- sh -c '{IN_TREE} || exit 1; setsid sleep 60 & exit 7'")
    expect(run.wait(5) == 7 and run.stderr == "", f"{run}")
    cell.expect_clean()


@test("cgroup2 mounted read-only: auto falls back, says so in one line, gives the right status", users=("root",))
def read_only(cell):
    point, _ = cgroup2_mount()
    remount = f"mount --bind {point} {point}; mount -o remount,ro,bind {point}; "
    run = private_mounts(cell, remount + "\"$1\" run -- sh -c 'setsid sleep 60 >/dev/null 2>&1 & exit 7'")
    expect(run.wait(5) == 7, f"{run}")
    own_line(run.stderr, 1)
    run = private_mounts(cell, remount + "\"$1\" run -q -- sh -c 'exit 7'")
    expect(run.wait(5) == 7 and run.stderr == "", f"{run}")
    for option in ("--backend=subtree", "--require=whole"):
        run = private_mounts(cell, remount + f"exec \"$1\" run {option} -- touch \"$2/ran\"")
        expect(run.wait(5) == 125 and not os.path.exists(os.path.join(cell.dir, "ran")), f"{run}")
        own_line(run.stderr, 1)
    cell.expect_clean()


@test("no cgroup2 at all: auto falls back, says so in one line", users=("root",))
def no_cgroup2(cell):
    point, _ = cgroup2_mount()
    run = private_mounts(cell, f"umount -l {point}; \"$1\" run -- sh -c 'setsid sleep 60 >/dev/null 2>&1 & exit 7'")
    expect(run.wait(5) == 7, f"{run}")
    own_line(run.stderr, 1)
    cell.expect_clean()


@test("G24 a frozen base: the spawn fails within its bound, nothing is left in it")
def frozen_base(cell):
    base = cell.cgroup.make("base")
    base.write("cgroup.freeze", "1")
    run = cell.run("--backend=subtree", command=["true"], environment={"CGTREE_BASE": base.name})
    code = run.wait(13)
    expect(code == 125, f"status {code}: {run}")
    own_line(run.stderr, 1)
    expect(not base.populated() and base.below() == [], f"left: {[group.path for group in base.below()]}")
    base.write("cgroup.freeze", "0")
    os.rmdir(base.path)
    cell.expect_clean()


@test("G24 a frozen base: TERM to the tool that waits for the birth ends it at once")
def frozen_base_term(cell):
    base = cell.cgroup.make("base")
    base.write("cgroup.freeze", "1")
    run = cell.run("--backend=subtree", command=["true"], environment={"CGTREE_BASE": base.name})
    expect(base.wait_populated(True, 5), f"no birth in the base: {run}")
    run.signal(signal.SIGTERM)
    code = run.wait(3)
    expect(code == -signal.SIGTERM, f"return code {code}: {run}")
    expect(not base.populated() and base.below() == [], f"left: {[group.path for group in base.below()]}")
    base.write("cgroup.freeze", "0")
    os.rmdir(base.path)
    cell.expect_clean()


@test("a base that was killed once is still a base (the kernel's spurious KILL)")
def killed_base(cell):
    base = cell.cgroup.make("base")
    base.write("cgroup.kill", "1")
    for _ in range(3):
        run = cell.run("--backend=subtree", command=["sh", "-c", "exit 42"], environment={"CGTREE_BASE": base.name})
        code = run.wait(5)
        expect(code == 42, f"status {code}: {run}")
    os.rmdir(base.path)
    # and a caller that itself lives in a cgroup that was killed before it came
    second = cell.cgroup.make("second")
    second.write("cgroup.kill", "1")
    for where in (second.name, "self"):
        run = cell.run("--backend=subtree", command=["sh", "-c", "exit 42"], caller=[f"--cgroup={second.path}"],
                       environment={"CGTREE_BASE": where})
        code = run.wait(5)
        expect(code == 42, f"base {where}: status {code}: {run}")
    os.rmdir(second.path)
    cell.expect_clean()


@test("H34 a cgroup with a colon, blanks and ' (deleted)' in its name")
def odd_name(cell):
    odd = cell.cgroup.make("a:b c (deleted)")
    report = cell.report()
    run = cell.run("--require=whole", caller=[f"--cgroup={odd.path}"],
                   command=[cell.payload("setsid-child"), f"--report={report.path}"])
    report.wait_ready()
    expect(cell.record()["cgroup"].startswith(odd.name + "/"), f"{cell.record()['cgroup']}")
    code, kill = cell.tool("kill", cell.record_ids()[0])
    expect(code == 0 and report.wait_end(0.05), f"{kill}")
    run.wait(5)
    report = cell.report()
    run = cell.run("--require=whole", caller=[f"--cgroup={odd.path}"],
                   command=[cell.payload("setsid-child"), f"--report={report.path}"])
    report.wait_ready()
    cell.kill_with_helpers(run)
    code, sweep = cell.tool("sweep")
    expect(code == 0 and report.wait_end(2), f"{sweep}")
    expect(odd.below() == [], f"left: {[group.path for group in odd.below()]}")
    os.rmdir(odd.path)
    cell.expect_clean()


@test("H33 inside a cgroup namespace", users=("root",))
def cgroup_namespace(cell):
    """The tool inside lives below its namespace's root; a sweep outside does not judge the paths in its record."""
    report = cell.report()
    run = cell.start(["unshare", "-C", cell.host.cgtree, "run", "-q", "--", cell.payload("setsid-child"),
                      f"--report={report.path}"], environment={"CGTREE_BASE": None})
    report.wait_ready()
    expect(len(cell.record_ids()) == 1, f"{cell.record_ids()}")
    backend = cell.record()["backend"]
    code, sweep = cell.tool("sweep")
    expect(report.alive() and not report.ended, f"the sweep outside judged it: {sweep}")
    run.signal(signal.SIGTERM)
    code = run.wait(5)
    expect(code == -signal.SIGTERM and report.wait_end(0.05), f"return code {code}: {run}")
    cell.expect_clean()
    return f"took {backend} there"


@test("H33 an orphaned record of another cgroup namespace is skipped, not believed absent", users=("root",))
def orphan_of_namespace(cell):
    report = cell.report()
    run = cell.start(["unshare", "-C", cell.host.cgtree, "run", "--backend=subtree", "--", cell.payload("setsid-child"),
                      f"--report={report.path}"])
    report.wait(lambda: report.ready, 3)
    if not report.ready:
        run.signal(signal.SIGTERM)
        run.wait(5)
        expect("subtree" in run.stderr, f"{run}")
        raise Skipped("no subtree inside a cgroup namespace here")
    cell.kill_with_helpers(run)
    identity = cell.record_ids()[0]
    code, sweep = cell.tool("sweep")
    expect(code == 1 and identity in sweep.stderr, f"status {code}: {sweep}")
    expect(report.alive() and identity in cell.record_ids(), "the record was dropped, or the tree ended")


@test("H31 clone3 refused by a filter: the tree starts all the same", backends=BACKENDS)
def filtered_clone3(cell, backend):
    for number in (errno.ENOSYS, errno.EPERM, errno.E2BIG):
        report = cell.report()
        run = cell.run(f"--backend={backend}", "--grace=20s", caller=[f"--answer-clone3={number}"],
                       command=[cell.payload("setsid-child"), f"--report={report.path}", "--end=exit:7"])
        report.wait_ready()
        if backend == "subtree":
            for member in report.members.values():
                expect(member["cgroup"] == cell.record()["cgroup"], f"{member}")
        report.go()
        code = run.wait(5)
        expect(code == 7 and report.wait_end(0.05), f"{errno.errorcode[number]}: status {code}: {run}")
        code = cell.run(f"--backend={backend}", "-q", caller=[f"--answer-clone3={number}"],
                        command=["/nonexistent"]).wait(5)
        expect(code == 127, f"{errno.errorcode[number]}: status {code}")
        cell.expect_clean()


@test("H30 a base whose common ancestor is not ours: refused with a reason, never half-placed", users=("root",))
def common_ancestor(cell):
    base = cell.cgroup.make("delegated")
    for name in ("", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"):
        os.chown(os.path.join(base.path, name), 65534, 65534)
    os.chown(cell.records, 65534, 65534)
    outside = [*cell.as_nobody(), cell.host.cgtree, "run"]
    changes = {"CGTREE_BASE": base.name}
    run = cell.start([*outside, "--backend=subtree", "--", "touch", f"{cell.dir}/ran"], environment=changes)
    code = run.wait(5)
    expect(code == 125 and not os.path.exists(f"{cell.dir}/ran"), f"status {code}: {run}")
    own_line(run.stderr, 1)
    report = cell.report()
    run = cell.start([*outside, "--", cell.payload("setsid-child"), f"--report={report.path}", "--end=exit:7"],
                     environment=changes)
    report.wait_ready()
    expect(cell.record()["backend"] == "group", f"{cell.record()}")
    report.go()
    code = run.wait(5)
    expect(code == 7 and report.wait_end(0.05), f"status {code}: {run}")
    own_line(run.stderr, 1)
    expect(base.below() == [], f"left: {[group.path for group in base.below()]}")
    os.rmdir(base.path)
    cell.expect_clean()


@test("H28 a base with a domain controller enabled")
def domain_controller(cell):
    base = cell.cgroup.make("base")
    controllers = base.read("cgroup.controllers").split()
    if not controllers:
        raise Skipped("no controller is given to cgroups here")
    base.write("cgroup.subtree_control", f"+{controllers[0]}")
    report = cell.report()
    run = cell.run("--require=whole", environment={"CGTREE_BASE": base.name},
                   command=[cell.payload("double-fork"), f"--report={report.path}", "--end=exit:7"])
    report.wait_ready()
    report.go()
    code = run.wait(5)
    expect(code == 7 and report.wait_end(0.05) and base.below() == [], f"status {code}: {run}")
    os.rmdir(base.path)
    cell.expect_clean()


@test("A8 what systemd-run starts is outside: it lives, and the tree ends as if it were not", users=("user",),
      backends=BACKENDS)
def systemd_run(cell, backend):
    report = cell.report()
    unit = f"cgtree-e2e-{os.getpid()}-{backend}.service"
    if subprocess.run(["systemctl", "--user", "show-environment"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode != 0:
        raise Skipped("no user manager here")
    try:
        run = cell.run(f"--backend={backend}", "-q",
                       command=["sh", "-c", f"systemd-run --user --quiet --collect --unit={unit} "
                                            f"{cell.payload('canary')} --report={report.path}; exit 7"])
        code = run.wait(10)
        expect(code == 7, f"status {code}: {run}")
        report.wait_ready()
        expect(report.alive() and not report.ended, "the service of the user manager was ended with the tree")
        expect(cell.record_ids() == [], "the record is left")
        cell.expect_canary()
    finally:
        subprocess.run(["systemctl", "--user", "kill", "--signal=KILL", unit], stderr=subprocess.DEVNULL)


@test("the sidecar of a script that executes run lives on")
def sidecar(cell):
    report = cell.report()
    script = (f"{cell.payload('canary')} --report={report.path} & exec {cell.host.cgtree} run --backend=group "
              "--grace=300ms -q -- sh -c 'setsid sleep 60 >/dev/null 2>&1 & exit 7'")
    run = cell.start(["sh", "-c", script], stdout=None, stderr=None)
    code = run.wait(5)
    expect(code == 7, f"status {code}: {run}")
    report.wait_ready()
    expect(report.alive() and not report.ended, "the sidecar was ended with the tree")
    cell.expect_canary()


@test("a bystander with a copied CGTREE_ID lives, whatever ends the tree")
def copied_id(cell):
    for end in ("term", "kill", "sweep", "normal"):
        report = cell.report()
        known = os.path.join(cell.dir, f"id-{end}")
        run = cell.run("--backend=group", "--grace=300ms", "-q",
                       command=["sh", "-c", f"echo $CGTREE_ID >{known}; exec {cell.payload('setsid-child')} "
                                            f"--report={report.path} --end=exit:7"])
        report.wait_ready()
        with open(known) as file:
            identity = file.read().strip()
        expect(identity, "the group's command has no CGTREE_ID")
        # born elsewhere, after the record, as the child of nobody in the tree
        bystander = cell.start([cell.payload("canary")], caller=[f"--cgroup={cell.elsewhere.path}"],
                               environment={"CGTREE_ID": identity})
        bystander.wait_text("stderr", "ready", 5)
        if end == "term":
            run.signal(signal.SIGTERM)
        elif end == "kill":
            code, kill = cell.tool("kill", cell.record_ids()[0])
            expect(code == 0, f"{kill}")
        elif end == "sweep":
            cell.kill_with_helpers(run)
            code, sweep = cell.tool("sweep")
            expect(code == 0, f"{sweep}")
        else:
            report.go()
        run.wait(5)
        expect(report.wait_end(2), f"{end}: a member lives")
        expect(bystander.process.poll() is None, f"{end}: the bystander was ended")
        bystander.signal(signal.SIGKILL)
        bystander.process.wait()
        cell.expect_canary()
        expect(cell.record_ids() == [], f"{end}: record left")


@test("usage errors: 125, one line that names what is wrong, nothing left")
def usage(cell):
    for arguments, text in (([], "COMMAND"), (["--"], "COMMAND"), (["--no-such-option", "true"], "--no-such-option"),
                            (["-Z", "true"], "-Z"), (["--timeout=soon", "true"], "soon"), (["--grace=-1", "true"], "-1"),
                            (["--grace=1.5.2s", "true"], "1.5.2s"), (["--timeout=99999999999999d", "true"], "too long"),
                            (["--backend=scope", "true"], "scope"), (["--require=all", "true"], "all"),
                            (["--signal=NOSUCH", "true"], "NOSUCH"), (["--signal=0", "true"], "0"),
                            (["--kill-mode=some", "true"], "some"), (["--leftovers=keep", "true"], "keep"),
                            (["--stdin=tty", "true"], "tty"), (["--name=", "true"], "name"),
                            (["--name=a/b", "true"], "a/b"), (["--name=v7k2m9q4x1c8r5t0", "true"], "v7k2"),
                            (["--timeout"], "--timeout"), (["--quiet=yes", "true"], "--quiet"),
                            (["--backend=group", "--require=whole", "true"], "--require=whole"),
                            (["--detach", "true"], "--detach"), (["--exec", "true"], "--exec")):
        code, running = cell.tool("run", *arguments)
        expect(code == 125, f"{arguments}: status {code}: {running}")
        expect(text in running.stderr, f"{arguments}: {text!r} is not in {running.stderr!r}")
        own_line(running.stderr, 1)
        expect(running.stdout == "", f"{arguments}: stdout {running.stdout!r}")
        cell.expect_clean()
    for arguments in (["run", "--help"], ["run", "-h"], ["--help"], ["help"], ["help", "run"], ["--version"], ["run", "-V"],
                      ["kill", "--help"], ["list", "--help"], ["sweep", "--help"]):
        code, running = cell.tool(*arguments)
        expect(code == 0 and running.stdout and running.stderr == "", f"{arguments}: {running}")


@test("options end at the command", backends=BACKENDS)
def options_end(cell, backend):
    run = cell.start([cell.host.cgtree, "run", f"--backend={backend}", "-q", "echo", "--timeout=x", "-h", "--", "a"])
    expect(run.wait(5) == 0 and run.stdout == "--timeout=x -h -- a\n", f"{run}")
    cell.expect_clean()


@test("a records directory that cannot be used: 125, one line, the command never runs", backends=BACKENDS)
def records_unusable(cell, backend):
    plain = os.path.join(cell.dir, "plain")
    with open(plain, "w"):
        pass
    link = os.path.join(cell.dir, "link")
    os.symlink(cell.records, link)
    loose = os.path.join(cell.dir, "loose")
    os.mkdir(loose)
    os.chmod(loose, 0o777)
    places = [plain, os.path.join(plain, "below"), "/proc/no-such", link, loose, os.path.join(cell.dir, "no", "such")]
    if os.geteuid() != 0:
        closed = os.path.join(cell.dir, "closed")
        os.mkdir(closed, 0o500)
        places += [closed, "/"]
    ran = os.path.join(cell.dir, "ran")
    for place in places:
        run = cell.run(f"--backend={backend}", f"--records={place}", command=["touch", ran])
        code = run.wait(5)
        expect(code == 125 and not os.path.exists(ran), f"{place}: status {code}: {run}")
        own_line(run.stderr, 1)
        expect(os.listdir(loose) == [], f"{place}: left {os.listdir(loose)}")
        cell.expect_clean()


@test("J46 a full disk: the tree does not start, other records stay as they are", users=("root",), backends=BACKENDS)
def full_disk(cell, backend):
    report = cell.report()
    script = f"""
        mount -t tmpfs -o size=8k,mode=700 full $2/records
        $1 run -q --backend={backend} --name=first -- {cell.payload('canary')} --report={report.path} & first=$!
        read ready <$2/go
        before=$(cat $2/records/*.json | cksum)
        cat /dev/zero >$2/records/filler 2>/dev/null || true
        rc=0; $1 run --backend={backend} -- touch $2/ran || rc=$?
        [ $rc = 125 ] || exit 91
        [ ! -e $2/ran ] || exit 92
        [ "$before" = "$(cat $2/records/*.json | cksum)" ] || exit 93
        ls $2/records >$2/listing
        $1 kill first 2>/dev/null || exit 94
        rc=0; wait $first || rc=$?
        [ $rc = 143 ] || exit 95
        rm $2/records/filler
        [ -z "$(ls $2/records)" ] || exit 96
    """
    os.mkfifo(os.path.join(cell.dir, "go"))
    run = private_mounts(cell, script)
    report.wait_ready()
    with open(os.path.join(cell.dir, "go"), "w") as go:
        go.write("go\n")
    code = run.wait(10)
    expect(code == 0, f"step {code}: {run}")
    own_line(run.stderr.replace("Terminated\n", ""), 1)  # the shell says that of its job
    with open(os.path.join(cell.dir, "listing")) as file:
        names = sorted(file.read().split())
    expect(len(names) == 3 and "first.name" in names and "filler" in names, f"in the full directory: {names}")
    expect(report.wait_end(0.05), "the first tree lives")
    cell.expect_clean()


@test("the libexec programs cannot be found: a clear error, nothing left", backends=("group",))
def no_libexec(cell, backend):
    run = cell.run(f"--backend={backend}", command=["touch", f"{cell.dir}/ran"],
                   environment={"CGTREE_LIBEXEC": os.path.join(cell.dir, "nowhere")})
    code = run.wait(5)
    expect(code == 125 and not os.path.exists(f"{cell.dir}/ran"), f"status {code}: {run}")
    own_line(run.stderr, 1)
    cell.expect_clean()


@test("the root moves itself: the timeout still ends it, the move is reported")
def root_moves(cell):
    report = cell.report()
    run = cell.run("--backend=subtree", f"--timeout={scaled(0.6)}", "--grace=20s",
                   command=[cell.payload("root-moves"), f"--into={cell.elsewhere.path}", f"--report={report.path}"])
    report.wait_ready()
    code = run.wait(5)
    expect(code == 124 and report.wait_end(0.05), f"status {code}: {run}")
    expect(all(line.startswith("cgtree: ") for line in run.stderr.splitlines()), f"stderr: {run.stderr!r}")
    expect(cell.elsewhere.name in run.stderr and "root-moves" in run.stderr, f"the report: {run.stderr!r}")
    cell.expect_clean()


@test("chmod 0 by the payload on its own cgroup: removed all the same")
def chmod_zero(cell):
    report = cell.report()
    run = cell.run("--backend=subtree", command=[cell.payload("chmod-zero"), f"--report={report.path}", "--end=exit:7"])
    report.wait_ready()
    report.go()
    code = run.wait(5)
    expect(code == 7 and run.stderr == "", f"status {code}: {run}")
    cell.expect_clean()


@test("auto takes the subtree where the base is ours, and says nothing")
def auto_subtree(cell):
    run = cell.run(command=["sh", "-c", IN_TREE])
    expect(run.wait(5) == 0 and run.stderr == "", f"{run}")
    run = cell.run("--verbose", command=["true"])
    expect(run.wait(5) == 0 and "subtree" in run.stderr, f"{run}")
    cell.expect_clean()


@test("B12 a tmux server that a tree started ends with it; one that was there before lives", backends=BACKENDS)
def tmux(cell, backend):
    if not shutil.which("tmux"):
        raise Skipped("tmux is not installed")
    inside, outside = (os.path.join(cell.dir, name) for name in ("inside", "outside"))
    environment = {"TMUX_TMPDIR": cell.dir, "TERM": "dumb"}
    code = cell.start(["tmux", "-S", outside, "new-session", "-d", "sleep 60"], environment=environment).wait(10)
    expect(code == 0, "no tmux server")
    run = cell.run(f"--backend={backend}", "-q", environment=environment,
                   command=["sh", "-c", f"tmux -S {inside} new-session -d 'sleep 60' && "
                                        f"tmux -S {outside} new-session -d 'sleep 60'"])
    code = run.wait(10)
    expect(code == 0, f"{run}")
    alive = cell.start(["tmux", "-S", outside, "list-sessions"], environment=environment)
    expect(alive.wait(5) == 0 and len(alive.stdout.splitlines()) == 2, f"the server outside: {alive}")
    gone = cell.start(["tmux", "-S", inside, "list-sessions"], environment=environment)
    expect(gone.wait(5) != 0, f"the server inside answers: {gone}")
    stop = cell.start(["tmux", "-S", outside, "kill-server"], environment=environment)
    stop.wait(5)


@test("J45 a tree whose orphans a subreaper adopts is swept")
def below_subreaper(cell):
    """These tests run below a subreaper: no orphan here ever has parent 1."""
    report = cell.report()
    run = cell.run("--backend=subtree", command=[cell.payload("double-fork"), f"--report={report.path}"])
    report.wait_ready()
    expect(report.member("daemon")["ppid"] != "1", f"{report.member('daemon')}")
    cell.kill_with_helpers(run)
    code, sweep = cell.tool("sweep")
    expect(code == 0 and report.wait_end(2), f"{sweep}")
    cell.expect_clean()


# A PID 1 that reaps those whom it has started, and nobody else; then it counts who is dead around it.
FIRST = """
import os, sys
for _ in range(50):
    pids = [os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ) for _ in range(4)]
    if any([os.waitpid(pid, 0)[1] for pid in pids]):
        sys.exit("a run has failed")
stats = [open(f"/proc/{name}/stat").read() for name in os.listdir("/proc") if name.isdigit()]
print([stat for stat in stats if stat.rpartition(")")[2].split()[0] == "Z"])
"""


@test("200 runs under a PID 1 that does not reap leave no zombie", users=("root",), backends=BACKENDS)
def no_reaper(cell, backend):
    namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*namespace, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skipped("no pid namespace here")
    first = cell.start([*namespace, sys.executable, "-c", FIRST, cell.host.cgtree, "run", f"--backend={backend}", "--", "true"])
    code = first.wait(90)
    expect(code == 0 and first.stderr == "", f"status {code}: {first}")
    expect(first.stdout == "[]\n", f"{first}")
    cell.expect_clean()


@test("20 trees at once, each with an escapee", backends=BACKENDS)
def many(cell, backend):
    runs = []
    for number in range(20):
        report = cell.report()
        runs.append((report, cell.run(f"--backend={backend}", "--grace=20s", f"--name=many-{number}",
                                      command=[cell.payload("double-fork"), f"--report={report.path}", "--end=exit:3"])))
    for report, run in runs:
        report.wait_ready(20)
    for report, run in runs:
        report.go()
    for report, run in runs:
        code = run.wait(20)
        expect(code == 3 and report.wait_end(0.05), f"status {code}: {run}")
    expect(not re.search("many", " ".join(os.listdir(cell.records))), f"{os.listdir(cell.records)}")
    cell.expect_clean()
