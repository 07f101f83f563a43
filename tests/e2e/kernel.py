"""What the kernel says: cgroups, pidfds, the last close of a FIFO.  The oracles of every test here."""

import ctypes
import errno
import os
import select
import signal
import stat
import subprocess
import time

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_CHILD_SUBREAPER = 36


def become_subreaper():
    if LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def now():
    return time.clock_gettime(time.CLOCK_MONOTONIC)


PATIENCE = 1.0


def learn_patience():
    """How much slower than it should this machine starts programs just now: every bound on waiting grows with it."""
    global PATIENCE
    started = now()
    for _ in range(20):
        subprocess.run(["true"], check=True)
    PATIENCE = min(10.0, max(1.0, (now() - started) / 0.1))


def deadline_in(seconds):
    return now() + seconds * PATIENCE


def scaled(seconds):
    """The same for a duration that is given to the tool, in which a payload has to prove itself first."""
    return f"{seconds * PATIENCE:.3f}s"


def wait_readable(fd, seconds):
    """True once fd is readable or hung up, False when the time is over."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0, seconds) * 1000))


def has_ended(pidfd):
    """By pidfd alone: a pid that still exists proves nothing (zombies), nor does one that does not."""
    return wait_readable(pidfd, 0)


def cgroup2_mount(mountinfo="/proc/self/mountinfo"):
    """(mount point, root of the mount) of the first cgroup2 mount, or (None, None)."""
    with open(mountinfo) as file:
        for line in file:
            before, _, after = line.partition(" - ")
            if after.split()[0] == "cgroup2":
                fields = before.split()
                return unescape(fields[4]), unescape(fields[3])
    return None, None


def unescape(field):
    return field.encode().decode("unicode_escape") if "\\" in field else field


def own_cgroup(pid="self"):
    """The path after the second colon of the `0::` line, as it is."""
    with open(f"/proc/{pid}/cgroup") as file:
        for line in file:
            if line.startswith("0::"):
                return line[3:].rstrip("\n")
    return None


class Cgroup:
    """One cgroup directory, by its path in the file system."""

    def __init__(self, path):
        self.path = path

    @classmethod
    def own(cls):
        point, root = cgroup2_mount()
        path = own_cgroup()
        if point is None or path is None or path.startswith("/.."):
            return None
        if root != "/" and (path == root or path.startswith(root + "/")):
            path = path[len(root):]
        return cls(point + path.rstrip("/"))

    @property
    def name(self):
        """The path below the mount, as /proc/PID/cgroup and the records write it."""
        point, root = cgroup2_mount()
        return root.rstrip("/") + self.path[len(point):]

    def child(self, name):
        return Cgroup(os.path.join(self.path, name))

    def make(self, name):
        made = self.child(name)
        os.mkdir(made.path)
        return made

    def exists(self):
        return os.path.isdir(self.path)

    def read(self, file):
        with open(os.path.join(self.path, file)) as stream:
            return stream.read()

    def write(self, file, text):
        fd = os.open(os.path.join(self.path, file), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def events(self):
        return dict(line.split() for line in self.read("cgroup.events").splitlines())

    def populated(self):
        try:
            return self.events()["populated"] == "1"
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENODEV):
                return False
            raise

    def procs(self):
        """The pids in this very cgroup; the threads' processes where it is threaded."""
        try:
            return sorted({int(pid) for pid in self.read("cgroup.procs").split()})
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENODEV):
                return []
            if error.errno != errno.EOPNOTSUPP:
                raise
        found = set()
        for tid in self.read("cgroup.threads").split():
            try:
                with open(f"/proc/{tid}/status") as file:
                    found.update(int(line.split()[1]) for line in file if line.startswith("Tgid:"))
            except OSError:
                pass
        return sorted(found)

    def below(self):
        """Every cgroup below, the innermost first; a directory without permissions is opened again first."""
        self.unlock()
        found = []
        try:
            names = sorted(entry.name for entry in os.scandir(self.path) if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []
        for name in names:
            child = self.child(name)
            found += child.below() + [child]
        return found

    def unlock(self):
        try:
            mode = os.stat(self.path).st_mode
            if stat.S_IMODE(mode) & 0o700 != 0o700:
                os.chmod(self.path, 0o755)
        except OSError:
            pass

    def kill(self, seconds=5):
        """Ends all below, also processes whose main thread has exited; True when the kernel says it is empty."""
        deadline = now() + seconds
        pause = 0.0005
        while True:
            below = self.below() + [self]
            try:
                self.write("cgroup.kill", "1")
            except OSError:
                pass
            if not self.populated():
                return True
            for group in below:
                for pid in group.procs():
                    if pid > 1 and pid != os.getpid():
                        try:
                            os.kill(pid, signal.SIGKILL)
                        except OSError:
                            pass
            if now() > deadline:
                return False
            select.select([], [], [], pause)
            pause = min(pause * 2, 0.02)

    def remove(self):
        """Bottom-up, bounded; True when it is gone."""
        deadline = now() + 2
        while True:
            try:
                for group in self.below():
                    os.rmdir(group.path)
                os.rmdir(self.path)
                return True
            except FileNotFoundError:
                if not self.exists():
                    return True
            except OSError:
                if now() > deadline:
                    return False
            select.select([], [], [], 0.005)

    def wait_populated(self, wanted, seconds):
        """True once the kernel says so; its notices may come 18 ms late, so that reading again is quicker."""
        deadline = deadline_in(seconds)
        while self.populated() != wanted:
            if now() > deadline:
                return False
            select.select([], [], [], 0.002)
        return True


def children_of(pid):
    """{pid: name} of the living children."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                before, _, after = file.read().rpartition(")")
        except OSError:
            continue
        state, parent = after.split()[:2]
        if int(parent) == pid and state != "Z":
            found[int(name)] = before.partition("(")[2]
    return found


def wait_state(pid, wanted, seconds):
    """True once the state letter of the process is the wanted one."""
    deadline = deadline_in(seconds)
    while True:
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
        if state == wanted or now() > deadline:
            return state == wanted
        select.select([], [], [], 0.002)


def describe(pid):
    """One line about a process for a failure's text."""
    def field(path):
        try:
            with open(f"/proc/{pid}/{path}", "rb") as file:
                return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError as error:
            return f"<{error.strerror}>"

    state = [line for line in field("status").splitlines() if line.startswith(("State:", "PPid:", "SigIgn:", "SigPnd:"))]
    return f"pid {pid} [{field('comm')}] {' '.join(' '.join(line.split()) for line in state)} wchan={field('wchan')}" \
           f" cgroup={own_or_none(pid)} cmd={field('cmdline')[:120]}"


def own_or_none(pid):
    try:
        return own_cgroup(pid)
    except OSError:
        return None
