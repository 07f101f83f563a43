#!/usr/bin/env python3
"""Real programs that leave processes behind: each is started in a tree, used once for what it does, and ended.  Then
every process that was in the tree is dead by its pidfd, its cgroup and its record are gone, its ports and sockets can
be bound at once, and the canary outside lives.

    real.py --cgtree PATH --payloads DIR [WORD...]     WORDs choose the cells whose names have them all
"""

import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys

import kernel
import suite
from cell import Failed, Skipped, expect
from kernel import deadline_in, describe, now, own_or_none, wait_readable

BACKENDS = ["subtree", "group"]
GRACE = 2.0
SLACK = 6.0       # a loaded machine's own time, and a real program's
LIFE = 600        # seconds of the canary, more than any cell takes
UNITS = 40        # C files of the project that make builds
HALFWAY = 10      # objects that are there when the build is aborted
PATH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"


def until(question, what, seconds=10):
    """Asks again until the answer is yes, and gives it; an OSError is a no."""
    deadline = deadline_in(seconds)
    while True:
        try:
            answer = question()
        except OSError as error:
            answer, what = None, f"{what.partition(':')[0]}: {error}"
        if answer:
            return answer
        expect(now() < deadline, f"it did not come to this: {what}")
        select.select([], [], [], 0.01)


def free_port():
    """One that nobody listens on, and that no client is given by the kernel."""
    while True:
        port = random.randrange(15000, 32000)
        try:
            bind(socket.AF_INET, ("127.0.0.1", port))
            return port
        except OSError:
            pass


def bind(family, address):
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1)


def comm(pid):
    """Its name, or nothing when it is gone."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


def ask(family, address, text):
    """What is answered, to its end or to the first line's."""
    with socket.socket(family) as client:
        client.settimeout(5 * kernel.PATIENCE)
        client.connect(address)
        client.sendall(text.encode())
        answer = b""
        while b"\n" not in answer or answer.startswith(b"HTTP"):
            data = client.recv(65536)
            if not data:
                break
            answer += data
        return answer.decode()


class Program:
    """What all have in common: a daemon, whose starter ends with 0 while the tree lives on."""

    needs = ()
    leftovers = "wait"
    detaches = True       # at least one member is in a session of its own
    codes = {"kill": 0, "term": 0}
    environment = {}

    def __init__(self, cell):
        self.cell, self.ports, self.sockets = cell, [], []
        self.run = None

    def file(self, name, text=None):
        path = os.path.join(self.cell.dir, name)
        if text is not None:
            with open(path, "w") as file:
                file.write(text)
        return path

    def port(self):
        self.ports.append(free_port())
        return self.ports[-1]

    def socket(self, name):
        self.sockets.append(self.file(name))
        return self.sockets[-1]

    def client(self, *argv, code=0):
        """A program outside of the tree, to its end; what it printed."""
        done = subprocess.run(argv, env=self.cell.environment(PATH=PATH, **self.environment), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=15 * kernel.PATIENCE)
        expect(done.returncode == code, f"{' '.join(argv)} gave {done.returncode}: {done.stdout!r}")
        return done.stdout

    def command(self):
        """Prepares what the program needs; the command to run."""
        raise NotImplementedError

    def use(self, members):
        """Waits until it works, and uses it once.  members(): the pids that are in the tree now."""

    def end(self):
        """Lets it end by itself."""

    def after(self, end):
        """What else must be true when all is over."""

    def clear(self):
        """Takes away what is not in the cell's directory."""


class Nginx(Program):
    name, needs = "nginx", ("nginx",)

    def command(self):
        temporary = "".join(f"    {kind}_temp_path {self.file(kind)};\n"
                            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        configuration = self.file("nginx.conf", f"""
            worker_processes 2;
            pid {self.file("nginx.pid")};
            error_log {self.file("nginx.log")};
            events {{ }}
            http {{
                access_log off;
                {temporary}
                server {{
                    listen 127.0.0.1:{self.port()};
                    location / {{ return 200 "from the tree\\n"; }}
                }}
            }}
            """)
        return ["nginx", "-e", self.file("nginx.log"), "-c", configuration]

    def use(self, members):
        request = "GET / HTTP/1.0\r\n\r\n"
        answer = until(lambda: ask(socket.AF_INET, ("127.0.0.1", self.ports[0]), request), "nginx answers")
        expect(answer.startswith("HTTP/1.1 200") and answer.endswith("from the tree\n"), f"nginx said {answer!r}")
        until(lambda: len(members()) >= 3, "a master and two workers")


class Redis(Program):
    name, needs = "redis", ("redis-server",)

    def command(self):
        return ["redis-server", "--daemonize", "yes", "--bind", "127.0.0.1", "--port", str(self.port()), "--unixsocket",
                self.socket("redis.sock"), "--dir", self.cell.dir, "--logfile", self.file("redis.log"), "--pidfile",
                self.file("redis.pid"), "--save", ""]

    def use(self, members):
        for family, address in ((socket.AF_UNIX, self.sockets[0]), (socket.AF_INET, ("127.0.0.1", self.ports[0]))):
            answer = until(lambda: ask(family, address, "PING\r\n"), "redis answers")
            expect(answer == "+PONG\r\n", f"redis said {answer!r}")


class SshAgent(Program):
    name, needs = "ssh-agent", ("ssh-agent", "ssh-add", "ssh-keygen")

    def command(self):
        self.environment = {"SSH_AUTH_SOCK": self.socket("agent.sock")}
        return ["ssh-agent", "-a", self.sockets[0]]

    def use(self, members):
        until(lambda: os.path.exists(self.sockets[0]), "the agent's socket")
        key = self.file("key")
        self.client("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "a key in the tree", "-f", key)
        until(lambda: "no identities" in self.client("ssh-add", "-l", code=1), "ssh-agent answers")
        self.client("ssh-add", "-q", key)
        shown = self.client("ssh-add", "-l")
        expect("a key in the tree (ED25519)" in shown, f"ssh-add -l printed {shown!r}")


class GpgAgent(Program):
    name, needs = "gpg-agent", ("gpg-agent", "gpg-connect-agent", "gpgconf")

    def command(self):
        home = self.file("gnupg")
        os.mkdir(home, 0o700)
        self.environment = {"GNUPGHOME": home, "GPG_AGENT_INFO": None}
        for line in self.client("gpgconf", "--list-dirs").splitlines():
            name, _, path = line.partition(":")
            if re.fullmatch(r"agent(-\w+)?-socket", name):
                self.sockets.append(path.replace("%3a", ":").replace("%25", "%"))
        return ["gpg-agent", "--daemon", "--quiet"]

    def use(self, members):
        until(lambda: os.path.exists(self.sockets[0]), "the agent's socket")
        answer = self.client("gpg-connect-agent", "--no-autostart", "GETINFO pid", "/bye")
        found = re.search(r"^D (\d+)\nOK", answer)
        expect(found and int(found[1]) in members(), f"gpg-agent said {answer!r}, members {members()}")

    def clear(self):
        subprocess.run(["gpgconf", "--remove-socketdir"], env=self.cell.environment(**self.environment),
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Tmux(Program):
    name, needs = "tmux", ("tmux",)

    def command(self):
        self.environment = {"TMUX": None, "TMUX_PANE": None}
        self.tmux = ["tmux", "-f", "/dev/null", "-S", self.socket("tmux.sock")]
        return [*self.tmux, "new-session", "-d", "-x", "80", "-y", "24", "exec sh"]

    def use(self, members):
        until(lambda: os.path.exists(self.sockets[0]), "the server's socket")
        until(lambda: self.client(*self.tmux, "list-sessions"), "a session")
        self.client(*self.tmux, "send-keys", "echo $((6 * 7))=answer", "Enter")
        until(lambda: "\n42=answer" in self.client(*self.tmux, "capture-pane", "-p"), "the pane shows the answer")
        expect(len(members()) >= 2, f"a server and a shell, but {members()}")


class Make(Program):
    name, needs = "make", ("make", "gcc")
    leftovers, detaches = "end", False
    # A compiler that was ended too may let make fail before its own TERM is handled.
    codes = {"normal": 0, "kill": (-signal.SIGTERM, 2), "term": (-signal.SIGTERM, 2)}

    def command(self):
        names = [f"unit{number}" for number in range(UNITS)]
        for number, name in enumerate(names):
            self.file(f"{name}.c", "".join(
                f"static long step{step}(long value) {{ return value % {step + 2} ? value + {step} : value * 2; }}\n"
                for step in range(10)) + f"long {name}(long value) {{ return value + {number}; }}\n"
                f"long {name}_steps(long value) {{ return {'('.join(f'step{step}' for step in range(10))}(value"
                f"{')' * 10}; }}\n")
        self.file("main.c", "#include <stdio.h>\n" + "".join(f"long {name}(long);\n" for name in names)
                  + "int main(void) {\n        long sum = 0;\n"
                  + "".join(f"        sum = {name}(sum);\n" for name in names)
                  + '        return printf("sum %ld\\n", sum) < 0;\n}\n')
        objects = " ".join(f"{name}.o" for name in [*names, "main"])
        self.file("Makefile", f"program: {objects}\n\tgcc -o $@ $^\n%.o: %.c\n\tgcc -Wall -Wno-unused -c -o $@ $<\n")
        self.environment = {"MAKEFLAGS": None, "MAKELEVEL": None, "TMPDIR": self.cell.dir}
        return ["make", "-s", "-j4", "-C", self.cell.dir]

    def use(self, members):
        def objects():
            return sum(name.endswith(".o") for name in os.listdir(self.cell.dir))
        until(lambda: objects() >= HALFWAY and len(members()) > 2, f"{HALFWAY} objects", 30)

    def after(self, end):
        program = self.file("program")
        if end != "normal":
            expect(not os.path.exists(program), "the aborted build was complete")
            return
        shown = self.client(program)
        expect(shown == f"sum {sum(range(UNITS))}\n", f"the built program printed {shown!r}")


class Node(Program):
    name, needs = "node", ("node",)
    leftovers = "end"
    codes = {"normal": 5, "kill": -signal.SIGTERM, "term": -signal.SIGTERM}

    def command(self):
        path, port = self.socket("node.sock"), self.port()
        child = self.file("child.js", f"""
            const net = require('net');
            const echo = socket => socket.on('data', data => socket.end(`child ${{process.pid}} ${{data}}`));
            net.createServer(echo).listen({port}, '127.0.0.1');
            net.createServer(echo).listen('{path}');
            """)
        parent = self.file("parent.js", f"""
            const options = {{ detached: true, stdio: 'ignore' }};
            require('child_process').spawn(process.execPath, ['{child}'], options).unref();
            process.stdin.on('end', () => process.exit(5)).resume();
            """)
        return ["node", parent]

    def use(self, members):
        for family, address in ((socket.AF_UNIX, self.sockets[0]), (socket.AF_INET, ("127.0.0.1", self.ports[0]))):
            answer = until(lambda: ask(family, address, "hello\n"), "node's child answers", 20)
            found = re.fullmatch(r"child (\d+) hello\n", answer)
            expect(found and int(found[1]) in members(), f"node's child said {answer!r}, members {members()}")
            expect(os.getsid(int(found[1])) == int(found[1]), "node's child is not detached")

    def end(self):
        self.run.process.stdin.close()


class Multiprocessing(Program):
    name = "multiprocessing"
    leftovers, detaches = "end", False
    codes = {"normal": 3, "kill": -signal.SIGTERM, "term": -signal.SIGTERM}

    def command(self):
        script = self.file("tables.py", f"""\
import multiprocessing
import os
import sys
from multiprocessing.managers import BaseManager, DictProxy

held = {{}}


def table():
    return held


class Manager(BaseManager):
    pass


Manager.register("table", callable=table, proxytype=DictProxy)


def work(shared, number, ended):
    shared[number] = os.getpid()
    ended.wait()


if __name__ == "__main__":
    manager = Manager(address={self.socket("manager.sock")!r}, authkey=b"cell")
    manager.start()
    multiprocessing.current_process().authkey = b"cell"
    ways = [multiprocessing.get_context(way) for way in ("fork", "spawn", "forkserver")]
    # held until the end: what a worker is given is gone with the last that names it here
    shared, ends = manager.table(), [way.Event() for way in ways]
    for number, way in enumerate(ways):
        way.Process(target=work, args=(shared, number, ends[number])).start()
    sys.stdin.read()
    os._exit(3)
""")
        return ["python3", script]

    def use(self, members):
        until(lambda: os.path.exists(self.sockets[0]), "the manager's socket", 20)
        client = self.file("client.py", f"""\
from multiprocessing.managers import BaseManager

BaseManager.register("table")
manager = BaseManager(address={self.sockets[0]!r}, authkey=b"cell")
manager.connect()
print(*manager.table().copy().values())
""")
        workers = until(lambda: self.three(client), "three workers in the manager's dict", 20)
        expect(workers <= set(members()), f"workers {workers}, members {members()}")
        expect(len(members()) >= 5, f"a root, a manager and three workers, but {members()}")

    def three(self, client):
        workers = set(map(int, self.client("python3", client).split()))
        return workers if len(workers) == 3 else None

    def end(self):
        self.run.process.stdin.close()


PROGRAMS = [Nginx, Redis, SshAgent, GpgAgent, Tmux, Make, Node, Multiprocessing]


class Use:
    """One cell: a program in a placement, with one end."""

    def __init__(self, cell, program, backend, end):
        for need in program.needs:
            if not shutil.which(need, path=PATH):
                raise Skipped(f"{need} is not installed")
        self.cell, self.backend, self.end = cell, backend, end
        self.program = program(cell)
        self.tree = f"{program.name}-{backend}-{end}"
        self.pidfds = {}
        # A loaded machine may build for longer than a payload lives by itself.
        cell.canary = cell.start([cell.payload("canary"), f"--life={LIFE}"])
        cell.canary.wait_text("stderr", "ready", 10)

    def start(self):
        program = self.program
        # A root says who it is, so that one can see that it has ended.
        command = ["sh", "-c", f"echo $$ >{program.file('root')}; exec \"$@\"", "sh", *program.command()]
        self.run = program.run = self.cell.run(
            f"--backend={self.backend}", f"--name={self.tree}", f"--leftovers={program.leftovers}", f"--grace={GRACE}s",
            command=command, environment={"PATH": PATH, **program.environment}, stdin=subprocess.PIPE)

    def members(self):
        """All that is in the cell's cgroup and below it, but for the canary, the tool and its helpers."""
        return [pid for pid in self.all() if not comm(pid).startswith("cgtree")]

    def all(self):
        own = {running.pid for running in self.cell.running}
        groups = self.cell.cgroup.below() + [self.cell.cgroup]
        return [pid for group in groups for pid in group.procs() if pid not in own]

    def check_living(self):
        """Each member, and each helper of the tool, is held by a pidfd from here on; the tree has its record and is
        where it should be."""
        expect(len(self.cell.record_ids()) == 1, f"records while it runs: {self.cell.record_ids()}")
        record = self.cell.record()
        expect(record["backend"] == self.backend, f"the record says backend {record['backend']}")
        if self.program.leftovers == "wait":
            with open(self.program.file("root")) as file:
                root = int(file.read())
            until(lambda: root not in self.members(), "its starter ends")
        inside = set(self.members())
        if self.backend == "subtree":
            expect(self.cell.tree_cgroup().populated(), "the tree's cgroup is empty")
            where = {pid: own_or_none(pid) for pid in inside}
            outside = [pid for pid, path in where.items() if path and not f"{path}/".startswith(record["cgroup"] + "/")]
            expect(not outside, f"not in the tree's cgroup: {[describe(pid) for pid in outside]}")
        sessions = set()
        for pid in self.all():
            try:
                self.pidfds[pid] = os.pidfd_open(pid)
                sessions |= {os.getsid(pid)} if pid in inside else set()
            except ProcessLookupError:
                pass
        expect(inside & set(self.pidfds), "nobody is in the tree")
        expect(not self.program.detaches or sessions - {os.getsid(self.run.pid)}, f"none is detached: {sessions}")
        expect(not wait_readable(self.run.pidfd, 0), f"the tool has ended, and the program lives: {self.run}")

    def make_it_end(self):
        self.ended_from = now()
        if self.end == "normal":
            self.program.end()
        elif self.end == "term":
            self.run.signal(signal.SIGTERM)
        else:
            code, kill = self.cell.tool("kill", f"--grace={GRACE}s", self.tree)
            expect(code == 0, f"kill gave {code}: {kill}")

    def check_end(self):
        bound = SLACK * kernel.PATIENCE + GRACE + (30 * kernel.PATIENCE if self.program.name == "make" else 0)
        code = self.run.wait(bound)
        wanted = self.program.codes[self.end]
        expect(code in (wanted if isinstance(wanted, tuple) else (wanted,)), f"exit status {code}, not {wanted}")
        alive = [describe(pid) for pid, pidfd in self.pidfds.items() if not wait_readable(pidfd, 0.2)]
        expect(not alive, "alive:\n    " + "\n    ".join(alive))
        self.check_free()
        self.cell.expect_clean()
        self.program.after(self.end)
        stderr = [line for line in self.run.stderr.splitlines() if line.startswith("cgtree: ")]
        expect(not stderr, f"the tool said {stderr}")

    def check_free(self):
        for port in self.program.ports:
            try:
                bind(socket.AF_INET, ("127.0.0.1", port))
            except OSError as error:
                raise Failed(f"port {port} is not free: {error}") from error
        for path in self.program.sockets:
            with socket.socket(socket.AF_UNIX) as client:
                refused = client.connect_ex(path)
            expect(refused, f"somebody listens at {path}")
            if os.path.exists(path):
                os.unlink(path)
            bind(socket.AF_UNIX, path)

    def close(self):
        for pidfd in self.pidfds.values():
            os.close(pidfd)
        self.program.clear()


def make_test(program, backend, end):
    def test(cell):
        use = Use(cell, program, backend, end)
        try:
            use.start()
            program_ends_first = program is Make and end == "normal"
            if not program_ends_first:
                use.program.use(use.members)
                use.check_living()
            use.make_it_end()
            use.check_end()
            ended = "whole" if program_ends_first else f"{len(use.pidfds)} processes"
            return f"{ended}, ended in {now() - use.ended_from:.2f} s"
        finally:
            use.close()
    return test


def cells(user):
    return [(f"{user}/{backend}/{program.name}/{end}", make_test(program, backend, end))
            for program in PROGRAMS for backend in BACKENDS for end in program.codes]


if __name__ == "__main__":
    sys.exit(suite.main(__file__, __doc__, "real", "programs' ends", cells))
