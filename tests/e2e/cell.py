"""A cell: one run of the tool in a cgroup, a records directory and a temporary directory of its own, with a canary beside
it, everything removed at the end whatever happened.  Failed expectations are exceptions that hold all there is to know."""

import json
import os
import select
import shutil
import signal
import subprocess

import kernel
from kernel import children_of, deadline_in, describe, has_ended, now, wait_readable, wait_state


class Failed(Exception):
    """An expectation did not come true."""


class Skipped(Exception):
    """This machine or user cannot do what the test needs; the reason is its text."""


def expect(condition, text):
    if not condition:
        raise Failed(text)


class Report:
    """The FIFO that every member of a payload holds: what they say, and the proof that the last of them is dead."""

    def __init__(self, path):
        self.path = path
        self.lines, self.proofs, self.made, self.members = [], [], [], {}
        self.ready = self.ended = False
        self.cannot = self.failed = None
        self._rest = b""
        for name in (path, path + ".go"):
            os.mkfifo(name)
            os.chmod(name, 0o666)
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.go_fd = os.open(path + ".go", os.O_RDWR | os.O_CLOEXEC)

    def close(self):
        for fd in [self.fd, self.go_fd] + [member["pidfd"] for member in self.members.values() if member["pidfd"]]:
            os.close(fd)
        self.fd = self.go_fd = -1
        self.members = {}

    def _take(self, line):
        self.lines.append(line)
        word, _, rest = line.partition(" ")
        if word == "member":
            fields, _, cgroup = rest.partition(" cgroup=")
            member = dict(item.split("=", 1) for item in fields.split())
            member["cgroup"] = cgroup
            try:
                member["pidfd"] = os.pidfd_open(int(member["pid"]))
            except OSError:
                member["pidfd"] = None
            self.members[int(member["pid"])] = member
        elif word == "proof":
            self.proofs.append(rest)
        elif word == "made":
            self.made.append(rest)
        elif word == "cannot":
            self.cannot = rest
        elif word == "failed":
            self.failed = rest
        elif word == "ready":
            self.ready = True

    def pump(self, seconds):
        """Reads what there is, waiting at most so long for it; False when the time is over."""
        if self.ended or not wait_readable(self.fd, seconds):
            return self.ended
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            return True
        if not data:
            self.ended = True
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace"))
        return True

    def wait(self, condition, seconds):
        deadline = deadline_in(seconds)
        while not condition() and not self.ended:
            if not self.pump(deadline - now()) and now() >= deadline:
                break
        return condition()

    def wait_ready(self, seconds=10):
        self.wait(lambda: self.ready or self.cannot or self.failed, seconds)
        if self.cannot:
            raise Skipped(f"the payload cannot {self.cannot}")
        expect(self.ready and not self.failed, f"the payload did not get ready: {self.lines}")

    def wait_end(self, seconds):
        """True when every holder of the FIFO is dead."""
        return self.wait(lambda: self.ended, seconds)

    def go(self):
        os.write(self.go_fd, b"x")

    def member(self, role):
        return next((member for member in self.members.values() if member["role"] == role), None)

    def alive(self):
        """A process leaves its cgroup a moment before its pidfd says that it has ended."""
        return [pid for pid, member in self.members.items()
                if member["pidfd"] and not wait_readable(member["pidfd"], 0 if not self.ended else 0.2)]


def is_helper_on_its_way_out(pid):
    """A guard that has done its work needs a moment to exit; one that stays is left behind."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            if file.read().strip() not in ("cgtree-guard", "cgtree-reaper"):
                return False
        pidfd = os.pidfd_open(pid)
    except (FileNotFoundError, ProcessLookupError):
        return True
    try:
        return wait_readable(pidfd, 1)
    finally:
        os.close(pidfd)


class Running:
    """A started program: its pidfd and its two pipes, read without ever waiting longer than said."""

    def __init__(self, argv, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        self.argv = argv
        self.started = now()
        self.process = subprocess.Popen(argv, **options)
        self.pid = self.process.pid
        self.pidfd = os.pidfd_open(self.pid)
        self.text = {"stdout": b"", "stderr": b""}
        self.ended_at = None

    def drain(self, name, seconds=0):
        """Reads to the end of the file; False when the time is over first."""
        stream = getattr(self.process, name)
        if stream is None or stream.closed:
            return True
        deadline = now() + seconds
        while wait_readable(stream.fileno(), deadline - now()):
            data = os.read(stream.fileno(), 65536)
            if not data:
                stream.close()
                return True
            self.text[name] += data
        return False

    def wait(self, seconds):
        """The return code as subprocess has it (-N: died of signal N); nobody else may hold the pipes then."""
        code = self.wait_itself(seconds)
        for name in ("stdout", "stderr"):
            expect(self.drain(name, 2), f"somebody holds {name} after the end of {self}")
        return code

    def wait_itself(self, seconds):
        """The same, where others may live on with its pipes."""
        if not wait_readable(self.pidfd, deadline_in(seconds) - now()):
            raise Failed(f"still running after {seconds:.1f} s: {self}\n{describe(self.pid)}")
        if self.ended_at is None:
            self.ended_at = now()
        return self.process.wait()

    def wait_text(self, name, wanted, seconds):
        """Reads until the text holds what is wanted."""
        deadline = deadline_in(seconds)
        stream = getattr(self.process, name)
        while wanted not in self.text[name].decode(errors="replace"):
            expect(wait_readable(stream.fileno(), deadline - now()), f"{wanted!r} did not come on {name}: {self}")
            data = os.read(stream.fileno(), 65536)
            expect(data, f"{name} ended before {wanted!r} came: {self}")
            self.text[name] += data

    @property
    def seconds(self):
        return (self.ended_at or now()) - self.started

    @property
    def stdout(self):
        return self.text["stdout"].decode(errors="replace")

    @property
    def stderr(self):
        return self.text["stderr"].decode(errors="replace")

    def signal(self, number):
        signal.pidfd_send_signal(self.pidfd, number)

    def close(self):
        if not has_ended(self.pidfd):
            self.signal(signal.SIGKILL)
        self.process.wait()
        os.close(self.pidfd)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream and not stream.closed:
                try:
                    stream.close()
                except OSError:
                    pass  # what was written to a dead reader's stdin

    def __str__(self):
        return f"{' '.join(self.argv)}\n  stdout: {self.stdout!r}\n  stderr: {self.stderr!r}"


class Cell:
    def __init__(self, host, name):
        self.host, self.name = host, name
        self.running, self.reports, self.terminals = [], [], []
        self.dir = self.cgroup = self.canary = None

    def __enter__(self):
        number = self.host.next_number()
        self.dir = os.path.join(self.host.dir, f"cell-{number}")
        self.records = os.path.join(self.dir, "records")
        os.mkdir(self.dir, 0o755)
        os.mkdir(self.records, 0o700)
        self.cgroup = self.host.base.make(f"cell-{number}")
        self.elsewhere = self.cgroup.make("elsewhere")
        self.canary = self.start_canary()
        return self

    def __exit__(self, *unused):
        for running in self.running:
            running.close()
        self.cgroup.kill()
        for holder in self.reports + self.terminals:
            holder.close()
        self.cgroup.remove()
        shutil.rmtree(self.dir, ignore_errors=True)

    # starting things

    def as_nobody(self):
        """What makes a command that of a user without rights, who has to reach what is under test."""
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if subprocess.run([*prefix, "test", "-x", self.host.cgtree]).returncode != 0:
            raise Skipped("another user cannot reach the build: it lies below a closed directory")
        return prefix

    def payload(self, name):
        return os.path.join(self.host.payloads, name)

    def caller(self, *options):
        """The prefix that executes a command from inside this cell's cgroup."""
        return [self.payload("caller"), f"--cgroup={self.cgroup.path}", *options]

    def environment(self, **changes):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CGTREE_")}
        environment["CGTREE_BASE"] = "self"
        environment["CGTREE_RECORDS"] = self.records
        environment.update(changes)
        return {name: value for name, value in environment.items() if value is not None}

    def start(self, argv, caller=(), environment=None, **options):
        running = Running(self.caller(*caller) + list(argv), env=self.environment(**(environment or {})), **options)
        self.running.append(running)
        return running

    def start_canary(self, **environment):
        canary = self.start([self.payload("canary"), f"--life={60 * kernel.PATIENCE:.0f}"], environment=environment)
        canary.wait_text("stderr", "ready", 10)
        return canary

    def report(self):
        report = Report(os.path.join(self.dir, f"report-{len(self.reports)}"))
        self.reports.append(report)
        return report

    def run(self, *options, command, **more):
        """`cgtree run OPTIONS -- COMMAND`, in the cell's cgroup."""
        return self.start([self.host.cgtree, "run", *options, "--", *command], **more)

    def tool(self, *arguments, seconds=15, caller=(), **more):
        """Any other verb, to its end: (code, running)."""
        running = Running([*([self.payload("caller"), *caller] if caller else []), self.host.cgtree, *arguments],
                          env=self.environment(**more))
        self.running.append(running)
        return running.wait(seconds), running

    def kill_with_helpers(self, run):
        """SIGKILL to the tool and to whatever of it would end the tree then: only a sweep can.  The tool is stopped
        first, lest it starts another."""
        run.signal(signal.SIGSTOP)
        expect(wait_state(run.pid, "T", 5), f"not stopped: {run}")
        for pid, name in children_of(run.pid).items():
            if name.startswith("cgtree-"):
                pidfd = os.pidfd_open(pid)
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                ended = wait_readable(pidfd, 5)
                os.close(pidfd)
                expect(ended, f"{name} survives SIGKILL")
        run.signal(signal.SIGKILL)
        expect(run.wait_itself(5) == -signal.SIGKILL, f"{run}")

    # looking

    def record_ids(self):
        return sorted(name[:-5] for name in os.listdir(self.records) if name.endswith(".json"))

    def record(self, identity=None):
        with open(os.path.join(self.records, f"{identity or self.record_ids()[0]}.json")) as file:
            return json.load(file)

    def tree_cgroup(self, identity=None):
        path = self.record(identity)["cgroup"]
        for group in self.cgroup.below():
            if group.name == path:
                return group
        raise Failed(f"the record's cgroup {path} is not below {self.cgroup.name}")

    def leftovers(self, made=()):
        """What the tool left: members, records, cgroups, processes.  `made`: directories that the payload itself made
        outside a tree; those must be empty, and only that."""
        left = [f"record directory holds {name}" for name in sorted(os.listdir(self.records))]
        for report in self.reports:
            left += [f"member alive: {describe(pid)}" for pid in report.alive()]
        own = {running.pid for running in self.running}
        for group in self.cgroup.below():
            if group.path == self.elsewhere.path or group.path in made:
                left += [f"{group.path} is populated"] if group.populated() else []
            else:
                left.append(f"cgroup left: {group.path} events={group.events()}")
        for group in self.cgroup.below() + [self.cgroup]:
            left += [f"process left: {describe(pid)}" for pid in group.procs()
                     if pid not in own and not is_helper_on_its_way_out(pid)]
        return left

    def wait_records_gone(self, seconds):
        deadline = deadline_in(seconds)
        while os.listdir(self.records) and now() < deadline:
            select.select([], [], [], 0.005)
        return not os.listdir(self.records)

    def wait_clean(self, seconds, made=()):
        """Where nobody tells when it is done: a helper that outlives its owner removes what is left."""
        deadline = deadline_in(seconds)
        while True:
            try:
                left = self.leftovers(made)
            except OSError as error:  # removed while it was looked at
                left = [str(error)]
            if not left or now() > deadline:
                return not left
            select.select([], [], [], 0.005)

    def expect_clean(self, made=()):
        left = self.leftovers(made)
        expect(not left, "left behind:\n    " + "\n    ".join(left))
        self.expect_canary()

    def expect_canary(self):
        expect(not has_ended(self.canary.pidfd), "the canary outside the tree is dead")

    def explain(self):
        """Everything a reader of a failure needs."""
        lines = []
        for running in self.running:
            if running is not self.canary:
                running.drain("stdout"), running.drain("stderr")
                lines.append(f"  ran ({'ended' if has_ended(running.pidfd) else 'still running'}): {running}")
        lines += [f"  terminal: {terminal.shown!r}" for terminal in self.terminals]
        for report in self.reports:
            lines.append(f"  report {'(ended)' if report.ended else '(still held)'}:")
            lines += [f"    {line}" for line in report.lines]
        try:
            lines += [f"  {line}" for line in self.leftovers()]
        except (OSError, Failed) as error:
            lines.append(f"  {error}")
        for name in sorted(os.listdir(self.records)):
            try:
                with open(os.path.join(self.records, name), errors="replace") as file:
                    lines.append(f"  record {name}: {file.read(4096)}")
            except OSError as error:
                lines.append(f"  record {name}: {error}")
        return "\n".join(lines)
