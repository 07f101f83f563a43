"""`cgtree run` as a prefix: statuses, what the command is born with, when it returns."""

import os
import re
import shutil
import signal
import socket

import kernel
from cell import Skipped, expect
from kernel import now, scaled, wait_readable
from registry import BACKENDS, test


def run_to_end(cell, *options, command, seconds=10, **more):
    run = cell.run(*options, command=command, **more)
    return run.wait(seconds), run


def within(cell, bound, attempt, tries=5):
    """The best of some attempts: what else runs on the machine only ever adds to the time.  Where even four plain shells
    one after the other take a tenth of the bound, the machine is so busy that the bound grows with them."""
    shells = cell.start(["sh", "-c", 'sh -c "sh -c \\"sh -c true; true\\"; true"; true'])
    shells.wait(20)
    allowed, took = max(bound, 10 * shells.seconds), []
    while len(took) < tries and (not took or took[-1] >= allowed):
        took.append(attempt())
    figures = ", ".join(f"{seconds:.3f} s" for seconds in took)
    expect(took[-1] < allowed, f"took {figures}, not under {bound} s (here {allowed:.3f} s)")
    return f"{took[-1]:.3f} s"


@test("a leftover in a new session is ended, the status is the command's", backends=BACKENDS)
def leftover(cell, backend):
    code, run = run_to_end(cell, f"--backend={backend}",
                           command=["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & exit 7"])
    expect(code == 7, f"status {code}: {run}")
    cell.expect_clean()


@test("a background job does not hold a command substitution")
def substitution(cell):
    def attempt():
        script = f'o=$({cell.host.cgtree} run -- sh -c "sleep 60 & echo hi"); echo "[$o]"'
        run = cell.start(["sh", "-c", script])
        code = run.wait(5)
        expect(code == 0 and run.stdout == "[hi]\n", f"status {code}: {run}")
        cell.expect_clean()
        return run.seconds

    return within(cell, 0.3, attempt)


@test("no sleep and no expired timeout ends the wait", users=("root",))
def no_sleep(cell):
    if not shutil.which("strace"):
        raise Skipped("strace is not installed")
    trace = os.path.join(cell.dir, "trace")
    calls = "trace=poll,ppoll,select,pselect6,epoll_wait,epoll_pwait,epoll_pwait2,nanosleep,clock_nanosleep"
    run = cell.start(["strace", "-o", trace, "-T", "-e", calls, cell.host.cgtree, "run", "--", "sh", "-c",
                      "sleep 60 & echo hi"])
    code = run.wait(10)
    expect(code == 0 and run.stdout == "hi\n", f"status {code}: {run}")
    with open(trace) as file:
        lines = file.read().splitlines()
    slept = [line for line in lines if "nanosleep(" in line]
    expect(not slept, f"it slept: {slept}")
    # Emptiness is read again after a fraction of a millisecond at a time, growing to 2 ms: the kernel's own notice may
    # come 18 ms late.  Nothing longer than that may have to run out.
    expired = [float(re.search(r"<([\d.]+)>$", line)[1]) for line in lines if "= 0 (Timeout)" in line]
    expect(all(seconds < 0.010 for seconds in expired) and sum(expired) < 0.050, f"timeouts ran out: {lines}")
    cell.expect_clean()


@test("a tree that ignores TERM ends at the grace after the timeout", backends=BACKENDS)
def ignorer(cell, backend):
    def attempt():
        report = cell.report()
        run = cell.run(f"--backend={backend}", "--timeout", "300ms", "--grace", "200ms",
                       command=[cell.payload("term-ignorer"), f"--report={report.path}", *more])
        report.wait_ready()
        code = run.wait(5)
        expect(code == 124, f"status {code}: {run}")
        expect(run.seconds >= 0.49, f"took {run.seconds:.3f} s, less than timeout and grace")
        expect(report.wait_end(0.05), "the ignorer lives")
        cell.expect_clean()
        return run.seconds

    for more in ([], ["--as-root"]):
        figure = within(cell, 0.8, attempt)
    return figure


@test("D16 death by a signal is passed on as such", backends=BACKENDS)
def signal_death(cell, backend):
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE,
                   signal.SIGABRT, signal.SIGALRM, signal.SIGRTMIN + 1):
        code, run = run_to_end(cell, f"--backend={backend}", "--quiet", command=["sh", "-c", f"kill -{int(number)} $$"])
        expect(code == -number, f"{number!r}: return code {code}: {run}")
        code, run = run_to_end(cell, command=["true"]) if number == signal.SIGKILL else (0, None)
        expect(code == 0, f"afterwards: {run}")
    script = f'{cell.host.cgtree} run -q --backend={backend} -- sh -c "kill -9 \\$\\$"; echo $?'
    shell = cell.start(["sh", "-c", script])
    shell.wait(10)
    expect(shell.stdout == "137\n", f"a shell sees {shell.stdout!r}")
    cell.expect_clean()


@test("D16 no second core is written", users=("root",))
def no_core(cell):
    pid = os.posix_spawn(cell.host.cgtree, ["cgtree", "run", "-q", "--", "sh", "-c", "ulimit -c unlimited; kill -SEGV $$"],
                         cell.environment(CGTREE_BASE=cell.cgroup.name), setsigdef=[signal.SIGPIPE])
    _, status = os.waitpid(pid, 0)
    expect(os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV, f"wait status {status:#x}")
    expect(not os.WCOREDUMP(status), "the tool dumped core for its command")
    cell.expect_clean()


@test("exit codes are passed on, all of them", backends=BACKENDS)
def exit_codes(cell, backend):
    for wanted in (0, 1, 2, 77, 124, 125, 126, 127, 128, 137, 255):
        code, run = run_to_end(cell, "-q", f"--backend={backend}", command=["sh", "-c", f"exit {wanted}"])
        expect(code == wanted, f"{wanted}: {run}")
    cell.expect_clean()


@test("D17 a command that cannot be executed: 127 or 126, a message, nothing left", backends=BACKENDS)
def exec_failure(cell, backend):
    plain = os.path.join(cell.dir, "plain")
    garbage = os.path.join(cell.dir, "garbage")
    script = os.path.join(cell.dir, "script")
    for path, content, mode in ((plain, "x", 0o644), (garbage, "\x7fgarbage\n", 0o755),
                                (script, "#!/nonexistent/interpreter\n", 0o755)):
        with open(path, "w") as file:
            file.write(content)
        os.chmod(path, mode)
    for command, wanted, text in (("/nonexistent", 127, "No such file"), ("no-such-command-here", 127, "No such file"),
                                  (plain + "/below", 127, "Not a directory"), (plain, 126, "Permission denied"),
                                  (garbage, 126, "Exec format error"), (cell.dir, 126, "Permission denied"),
                                  (script, 127, "interpreter"), ("", 127, "No such file")):
        code, run = run_to_end(cell, "-q", f"--backend={backend}", command=[command])
        expect(code == wanted, f"{command!r}: status {code}: {run}")
        expect(re.fullmatch(rf"cgtree: cannot run '{re.escape(command)}': .*{text}.*\n", run.stderr),
               f"{command!r} says {run.stderr!r}")
        expect(run.stdout == "", f"stdout: {run.stdout!r}")
        cell.expect_clean()


def birth(run):
    """What the command says it was born with, without what must differ: pipes have a new number each time."""
    lines = re.sub(r"(pipe|socket):\[\d+\]", r"\1", run.stdout).splitlines()
    return sorted(line for line in lines if not line.startswith("status SigQ"))


CALLERS = {
    "plain": [],
    "ignores CHLD": ["--ignore=17"],
    "blocks TERM": ["--block=15"],
    "blocks TERM, CHLD and a realtime signal": ["--block=15", "--block=17", "--block=40"],
    "ignores HUP, INT, PIPE": ["--ignore=1", "--ignore=2", "--ignore=13"],
    "ignores TERM": ["--ignore=15"],
    "has descriptors 7 and 50": ["--fd=7:/dev/null", "--fd=50:/dev/zero"],
    "has a low descriptor limit": ["--nofile=64"],
}


@test("E19 a birth through run equals a plain exec's", backends=BACKENDS)
def births(cell, backend):
    for name, options in CALLERS.items():
        changes = {"MARK": "a b=c", "EMPTY": ""}
        plain = cell.start([cell.payload("tell-birth"), "x", "", "y z"], caller=options, environment=changes, cwd="/usr")
        expect(plain.wait(10) == 0, f"{plain}")
        run = cell.run(f"--backend={backend}", command=[cell.payload("tell-birth"), "x", "", "y z"], caller=options,
                       environment=changes, cwd="/usr")
        code = run.wait(10)
        expect(code == 0, f"{name}: status {code}: {run}")
        wanted, found = birth(plain), birth(run)
        if backend == "group":
            marks = [line for line in found if line.startswith("environment CGTREE_ID=")]
            expect(len(marks) == 1, f"{name}: {marks}")
            found.remove(marks[0])
            # a group of its own is the placement; without a terminal it has a session too
            found, wanted = ([line for line in lines if not re.match("(session|group) leader=", line)]
                             for lines in (found, wanted))
        expect(found == wanted, f"a caller that {name}:\n  only plainly: {sorted(set(wanted) - set(found))}"
                                f"\n  only through run: {sorted(set(found) - set(wanted))}")
    cell.expect_clean()


@test("closed standard descriptors stay closed", backends=BACKENDS)
def closed_descriptors(cell, backend):
    out = os.path.join(cell.dir, "out")
    script = f'{cell.host.cgtree} run -q --backend={backend} -- sh -c "ls /proc/self/fd >{out} 2>/dev/null; exit 3" <&- >&- 2>&-'
    shell = cell.start(["sh", "-c", script])
    expect(shell.wait(10) == 3, f"{shell}")
    with open(out) as file:
        inside = file.read().split()
    plain = cell.start(["sh", "-c", f'sh -c "ls /proc/self/fd >{out} 2>/dev/null; exit 3" <&- >&- 2>&-'])
    expect(plain.wait(10) == 3, f"{plain}")
    with open(out) as file:
        expect(inside == file.read().split(), f"descriptors through run: {inside}")
    cell.expect_clean()


def signal_until_end(run, report):
    """TERM at least twice: while one is pending the kernel merges the next into it."""
    started = now()
    while not report.ended and now() < started + 5:
        run.signal(signal.SIGTERM)
        report.pump(0.05)


@test("a caller that ignores CHLD or blocks TERM still gets status and effect", backends=BACKENDS)
def odd_callers(cell, backend):
    for options in (["--ignore=17"], ["--block=15", "--block=17"], ["--block=15", "--ignore=17"]):
        code, run = run_to_end(cell, f"--backend={backend}", command=["sh", "-c", "exit 7"], caller=options)
        expect(code == 7, f"{options}: {run}")
        report = cell.report()
        run = cell.run(f"--backend={backend}", "--grace=20s", caller=options,
                       command=[cell.payload("setsid-child"), f"--report={report.path}"])
        report.wait_ready()
        if "--block=15" in options:
            # the command was born with TERM blocked, as a plain exec would have it: a second TERM, and only KILL ends it
            signal_until_end(run, report)
        else:
            run.signal(signal.SIGTERM)
        code = run.wait(5)
        expect(code == -signal.SIGTERM, f"{options}: return code {code}: {run}")
        expect(report.wait_end(0.05), "a member lives")
        cell.expect_clean()


@test("USR1, USR2, WINCH and CONT reach the command, once each", backends=BACKENDS)
def passed_signals(cell, backend):
    report = cell.report()
    run = cell.run(f"--backend={backend}", "--grace=20s",
                   command=[cell.payload("tell-signals"), f"--report={report.path}", "--end=trap:5"])
    report.wait_ready()
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT):
        run.signal(number)
        expect(report.wait(lambda: any(line.startswith(f"signal {int(number)} ") for line in report.lines), 5),
               f"{number!r} did not arrive: {report.lines}")
    run.signal(signal.SIGTERM)
    code = run.wait(5)
    expect(code == 5, f"the command's own status within the grace is 5, not {code}")
    report.wait_end(1)
    seen = [int(line.split()[1]) for line in report.lines if line.startswith("signal ")]
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGTERM):
        expect(seen.count(number) == 1, f"{number!r} arrived {seen.count(number)} times: {seen}")
    cell.expect_clean()


@test("sent INT, QUIT and HUP end the tree, beginning with that signal", backends=BACKENDS)
def ending_signals(cell, backend):
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        report = cell.report()
        run = cell.run(f"--backend={backend}", f"--grace={scaled(0.3)}", "-q",
                       command=[cell.payload("tell-signals"), f"--report={report.path}"])
        report.wait_ready()
        run.signal(number)
        code = run.wait(5)
        expect(code == -number, f"{number!r}: return code {code}: {run}")
        report.wait_end(1)
        seen = [int(line.split()[1]) for line in report.lines if line.startswith("signal ")]
        expect(seen.count(number) == 1 and set(seen) <= {number, signal.SIGCONT}, f"{number!r}: {seen}")
        cell.expect_clean()


@test("a second TERM does not wait for the grace", backends=BACKENDS)
def second_signal(cell, backend):
    report = cell.report()
    run = cell.run(f"--backend={backend}", "--grace=1h", "-q",
                   command=[cell.payload("term-ignorer"), f"--report={report.path}", "--as-root"])
    report.wait_ready()
    signal_until_end(run, report)
    code = run.wait(5)
    expect(code == -signal.SIGTERM, f"return code {code}: {run}")
    cell.expect_clean()


@test("A2 a wrapper shell that forks ends with its command", backends=BACKENDS)
def wrapper_shell(cell, backend):
    report = cell.report()
    run = cell.run(f"--backend={backend}", "--grace=20s",
                   command=["sh", "-c", f"{cell.payload('canary')} --report={report.path}; true"])
    report.wait_ready()
    run.signal(signal.SIGTERM)
    code = run.wait(5)
    expect(code == -signal.SIGTERM, f"return code {code}: {run}")
    expect(report.wait_end(0.05), "the shell's child lives")
    cell.expect_clean()


@test("A6 a chain whose middle link was killed is ended whole", backends=BACKENDS)
def broken_chain(cell, backend):
    report = cell.report()
    inner = f"{cell.payload('canary')} --report={report.path}; :"
    chain = f"sh -c 'echo $$ >{cell.dir}/middle; sh -c \"{inner}\"; :'; sleep 60"
    run = cell.run(f"--backend={backend}", "--grace=20s", command=["sh", "-c", chain])
    report.wait_ready()
    with open(os.path.join(cell.dir, "middle")) as file:
        middle = int(file.read())
    pidfd = os.pidfd_open(middle)
    os.kill(middle, signal.SIGKILL)
    expect(wait_readable(pidfd, 5), "the middle link lives")
    os.close(pidfd)
    code, kill = cell.tool("kill", cell.record_ids()[0])
    expect(code == 0, f"{kill}")
    expect(report.wait_end(0.05), "the last link lives")
    run.wait(5)
    cell.expect_clean()


@test("B10 a payload that kills its parent is ended with it", backends=BACKENDS)
def kills_parent(cell, backend):
    """The parent is the tool itself, or the helper of a group, to which TERM means the same; a shell above it, lest a
    broken tool costs us our own."""
    report, go = cell.report(), os.path.join(cell.dir, "go")
    os.mkfifo(go)
    script = f"{cell.payload('canary')} --report={report.path} & read x <{go}; kill -TERM $PPID; exec sleep 60"
    run = cell.start(["sh", "-c", '"$@"; echo status:$?', "sh", cell.host.cgtree, "run", f"--backend={backend}", "-q",
                      "--grace=20s", "--", "sh", "-c", script])
    report.wait_ready()
    with open(go, "w") as file:
        file.write("x\n")
    run.wait(5)
    expect(run.stdout == "status:143\n", f"{run}")
    expect(report.wait_end(0.05), "a member lives")
    cell.expect_clean()


@test("B10 a payload that SIGKILLs its parent", backends=BACKENDS)
def kills_parent_hard(cell, backend):
    report, go = cell.report(), os.path.join(cell.dir, "go")
    os.mkfifo(go)
    script = (f"{cell.payload('canary')} --report={report.path} >/dev/null 2>&1 & read x <{go}; kill -KILL $PPID; "
              "exec sleep 60 >/dev/null 2>&1")
    run = cell.start(["sh", "-c", '"$@"; echo status:$?', "sh", cell.host.cgtree, "run", f"--backend={backend}", "-q",
                      "--grace=300ms", "--", "sh", "-c", script])
    report.wait_ready()
    with open(go, "w") as file:
        file.write("x\n")
    if backend == "subtree":
        run.wait(5)
        expect(run.stdout == "status:137\n", f"{run}")
        code, sweep = cell.tool("sweep")
        expect(code == 0, f"{sweep}")
    else:
        # the helper is gone, its tree lives, and is ended by its marks
        code, kill = cell.tool("kill", cell.record_ids()[0])
        expect(code == 0, f"{kill}")
        run.wait(5)
        expect(run.stdout != "status:0\n", f"it ended as if all were well: {run}")
    expect(report.wait_end(2), "a member lives")
    cell.expect_clean()


@test("C15 the end of stdin reaches the command at once", backends=BACKENDS)
def stdin_end(cell, backend):
    reader, writer = os.pipe()
    run = cell.run(f"--backend={backend}", command=["cat"], stdin=reader)
    os.close(reader)
    os.write(writer, b"x")
    run.wait_text("stdout", "x", 5)
    os.close(writer)
    closed = now()
    code = run.wait(5)
    expect(code == 0 and now() - closed < 0.5 * kernel.PATIENCE, f"status {code} after {now() - closed:.2f} s")
    cell.expect_clean()


@test("C15 after SIGKILL of the tool no helper holds the caller's pipe", backends=BACKENDS)
def no_helper_holds(cell, backend):
    report = cell.report()
    run = cell.run(f"--backend={backend}", command=["sh", "-c", f"exec {cell.payload('canary')} --report={report.path} "
                                                                "</dev/null >/dev/null 2>&1"])
    report.wait_ready()
    run.signal(signal.SIGKILL)
    expect(run.wait(5) == -signal.SIGKILL, "the tool was to die")  # and its pipes are at their end, or wait() fails
    code, sweep = cell.tool("sweep")
    expect(code == 0 and report.wait_end(5), f"{sweep}")
    cell.expect_clean()


@test("--stdin=null gives the command /dev/null", backends=BACKENDS)
def stdin_null(cell, backend):
    code, run = run_to_end(cell, f"--backend={backend}", "-q", "--stdin=null",
                           command=["readlink", "/proc/self/fd/0"])
    expect(code == 0 and run.stdout == "/dev/null\n", f"{run}")
    cell.expect_clean()


@test("E18 an inherited 'ignore HUP' is kept by tool and command", backends=BACKENDS)
def nohup(cell, backend):
    report = cell.report()
    run = cell.run(f"--backend={backend}", caller=["--ignore=1"],
                   command=[cell.payload("canary"), f"--report={report.path}", "--end=exit:4"])
    report.wait_ready()
    run.signal(signal.SIGHUP)
    report.go()
    code = run.wait(5)
    expect(code == 4, f"return code {code}: {run}")
    cell.expect_clean()


@test("E19 a listener of the tree is free at once after kill", backends=BACKENDS)
def port_free(cell, backend):
    report = cell.report()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        os.set_inheritable(listener.fileno(), True)
        run = cell.run(f"--backend={backend}", pass_fds=[listener.fileno()],
                       command=[cell.payload("double-fork"), f"--report={report.path}"])
    report.wait_ready()
    code, kill = cell.tool("kill", cell.record_ids()[0])
    expect(code == 0, f"{kill}")
    run.wait(5)
    with socket.socket() as again:
        again.bind(("127.0.0.1", port))
    cell.expect_clean()


@test("--leftovers=wait waits for what the command left", backends=BACKENDS)
def leftovers_wait(cell, backend):
    report = cell.report()
    run = cell.run(f"--backend={backend}", "--leftovers=wait",
                   command=["sh", "-c", f"{cell.payload('canary')} --report={report.path} --end=exit:9 & exit 3"])
    report.wait_ready()
    expect(len(cell.record_ids()) == 1, "the record of a tree that lives is gone")
    report.go()
    code = run.wait(5)
    expect(code == 3, f"status {code}: {run}")
    cell.expect_clean()


@test("--kill-mode=mixed: the first signal goes to the root alone", backends=BACKENDS)
def mixed(cell, backend):
    report = cell.report()
    script = f"{cell.payload('tell-signals')} --report={report.path} & trap 'exit 6' TERM; while :; do wait; done"
    run = cell.run(f"--backend={backend}", "--kill-mode=mixed", "--grace=300ms", command=["sh", "-c", script])
    report.wait_ready()
    run.signal(signal.SIGTERM)
    code = run.wait(5)
    expect(code == 6, f"status {code}: {run}")
    report.wait_end(1)
    seen = [line.split()[1] for line in report.lines if line.startswith("signal ")]
    expect("15" not in seen, f"TERM reached a member: {seen}")
    cell.expect_clean()


@test("--signal=INT begins a timeout with INT", backends=BACKENDS)
def other_signal(cell, backend):
    report = cell.report()
    run = cell.run(f"--backend={backend}", "--signal=INT", f"--timeout={scaled(0.5)}", "--grace=300ms",
                   command=[cell.payload("tell-signals"), f"--report={report.path}"])
    report.wait_ready()
    code = run.wait(5)
    expect(code == 124, f"status {code}: {run}")
    report.wait_end(1)
    seen = [line.split()[1] for line in report.lines if line.startswith("signal ")]
    expect(seen.count("2") == 1 and "15" not in seen, f"signals: {seen}")
    cell.expect_clean()


@test("--grace=0 kills at once", backends=BACKENDS)
def no_grace(cell, backend):
    report = cell.report()
    run = cell.run(f"--backend={backend}", "--grace=0", "-q",
                   command=[cell.payload("tell-signals"), f"--report={report.path}"])
    report.wait_ready()
    run.signal(signal.SIGTERM)
    code = run.wait(5)
    expect(code == -signal.SIGTERM, f"return code {code}: {run}")
    cell.expect_clean()


@test("A1 a python daemon is dead after run returns", backends=BACKENDS)
def python_daemon(cell, backend):
    report = cell.report()
    program = ("import os,sys,time\n"
               "gate = os.pipe()\n"
               "if os.fork() == 0:\n"
               " os.setsid()\n"
               " if os.fork(): os._exit(0)\n"
               " os.chdir('/'); held = os.open(sys.argv[1], os.O_WRONLY)\n"
               " null = os.open('/dev/null', os.O_RDWR); [os.dup2(null, i) for i in range(3)]\n"
               " os.write(held, b'ready\\n'); os.write(gate[1], b'x'); time.sleep(60)\n"
               "os.read(gate[0], 1)\n")
    code, run = run_to_end(cell, f"--backend={backend}", command=["/usr/bin/python3", "-c", program, report.path])
    expect(code == 0, f"{run}")
    report.wait_ready(1)
    expect(report.wait_end(0.05), "the daemon lives")
    cell.expect_clean()


@test("A5 ssh-agent, which hides its environment, is ended", backends=BACKENDS)
def ssh_agent(cell, backend):
    if not shutil.which("ssh-agent"):
        raise Skipped("ssh-agent is not installed")
    path = os.path.join(cell.dir, "agent")
    script = f"eval $(ssh-agent -a {path}) >/dev/null; echo $SSH_AGENT_PID"
    code, run = run_to_end(cell, f"--backend={backend}", "-q", command=["sh", "-c", script],
                           environment={"JOBTAG": "x"})
    expect(code == 0 and run.stdout.strip().isdigit(), f"{run}")
    with socket.socket(socket.AF_UNIX) as client:
        expect(client.connect_ex(path) != 0, "the agent still answers")
    cell.expect_clean()


@test("A7 a daemon outside the tree, and what it starts at a member's request, live on", backends=BACKENDS)
def outside_daemon(cell, backend):
    report, path = cell.report(), os.path.join(cell.dir, "daemon")
    program = ("import os,socket,subprocess,sys\n"
               "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print('up', flush=True)\n"
               "while True:\n"
               " c, _ = s.accept(); subprocess.Popen(sys.argv[2:]); c.close()\n")
    daemon = cell.start(["/usr/bin/python3", "-c", program, path, cell.payload("canary"), f"--report={report.path}"])
    daemon.wait_text("stdout", "up\n", 10)
    client = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{path}'); s.recv(1)"
    code, run = run_to_end(cell, f"--backend={backend}", command=["/usr/bin/python3", "-c", client])
    expect(code == 0, f"{run}")
    report.wait_ready()
    expect(report.alive() and not report.ended, "the worker was ended with the tree that had asked for it")
    cell.expect_canary()
