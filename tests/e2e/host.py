"""Where tests run: a cgroup and a directory that hold all they make, a parent that adopts and reaps every orphan and clears
away whatever is left, and a pool that runs a few tests at once."""

import concurrent.futures
import itertools
import os
import shutil
import signal
import sys
import tempfile
import threading
import traceback

from cell import Cell, Failed, Skipped
from kernel import Cgroup, become_subreaper, learn_patience, now

SKIP = 77


class Host:
    def __init__(self, cgtree, payloads, prefix):
        self.cgtree = os.path.realpath(cgtree)
        self.payloads = os.path.realpath(payloads)
        self._numbers = itertools.count(1)
        own = Cgroup.own()
        if own is None or not os.access(own.path, os.W_OK):
            raise Skipped("no cgroup2 directory of our own that we may write to")
        self.base = own.make(f"{prefix}-{os.getpid()}")
        self.dir = tempfile.mkdtemp(prefix=f"{prefix}-")
        os.chmod(self.dir, 0o755)

    def next_number(self):
        return next(self._numbers)

    def clear(self):
        """Ends and removes everything; what it found is the caller's to report."""
        found = [pid for group in self.base.below() + [self.base] for pid in group.procs()]
        if not self.base.kill() or not self.base.remove():
            print(f"could not remove {self.base.path}", file=sys.stderr)
        shutil.rmtree(self.dir, ignore_errors=True)
        return found


class Result:
    def __init__(self, name, outcome, text="", seconds=0.0):
        self.name, self.outcome, self.text, self.seconds = name, outcome, text, seconds


def guarded(cgtree, payloads, prefix, work):
    """Runs work(host) in a child, reaps all orphans meanwhile, clears up after it, returns its exit status."""
    become_subreaper()
    learn_patience()
    try:
        host = Host(cgtree, payloads, prefix)
    except Skipped as reason:
        print(f"skipped: {reason}")
        return SKIP
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
            status = work(host)
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    status = reap_until(child)
    found = host.clear()
    if found:
        print(f"cleared away processes that were left: {found}", file=sys.stderr)
        status = status or 1
    reap_rest()
    return status


def reap_until(child):
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def reap_rest():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def run_one(host, name, test):
    """A test is a function of its cell; its name tells where it failed."""
    started = now()
    cell = Cell(host, name)
    try:
        with cell:
            try:
                note = test(cell)
            except Skipped:
                raise
            except Exception as error:
                text = str(error) if isinstance(error, Failed) else traceback.format_exc()
                return Result(name, "failed", f"{text}\n{cell.explain()}", now() - started)
        return Result(name, "passed", note or "", now() - started)
    except Skipped as reason:
        return Result(name, "skipped", str(reason), now() - started)
    except Exception:
        return Result(name, "failed", traceback.format_exc(), now() - started)


def run_all(host, tests, jobs, on_result=None):
    """tests: (name, function) pairs; the results in their order."""
    lock = threading.Lock()

    def job(item):
        result = run_one(host, *item)
        if on_result:
            with lock:
                on_result(result)
        return result

    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        return list(pool.map(job, tests))
