"""A suite has two halves: root's, and that of an unprivileged user in a delegated subtree.  Each runs in a process of its
own, both at once; their results come back as lines of JSON."""

import argparse
import json
import os
import signal
import subprocess
import sys

import host as hosts
from kernel import now

HERE = os.path.dirname(os.path.realpath(__file__))
USERS = ["root", "user"]


def take_default_signals():
    """A job of a shell without job control ignores INT and QUIT, one of nohup HUP; the tool would rightly keep to that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def parse(parser):
    take_default_signals()
    parser.add_argument("--cgtree", required=True, metavar="PATH", help="the tool under test")
    parser.add_argument("--payloads", required=True, metavar="DIR", help="where the misbehaving programs were built")
    parser.add_argument("--jobs", type=int, default=4, help="tests at once (default 4: they mostly wait)")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--half", choices=USERS, help="only this half, in this process")
    parser.add_argument("--results", type=int, help="with --half: the descriptor for its results")
    parser.add_argument("filter", nargs="*", metavar="WORD", help="run only what has all these words in its name")
    return parser.parse_args()


def chosen(tests, filters):
    return [(name, test) for name, test in tests if all(word in name for word in filters)]


def run_half(options, tests):
    def work(host):
        out = os.fdopen(options.results or os.dup(1), "w", buffering=1)
        hosts.run_all(host, tests, options.jobs, lambda result: out.write(json.dumps(vars(result)) + "\n"))
        return 0

    return hosts.guarded(options.cgtree, options.payloads, "cgtree-e2e", work) if tests else 0


class Half:
    def __init__(self, script, options, user, jobs, names):
        self.user, self.names = user, names
        ours, theirs = os.pipe()
        arguments = [os.path.realpath(script), "--half", user, "--results", str(theirs), "--cgtree",
                     os.path.realpath(options.cgtree), "--payloads", os.path.realpath(options.payloads),
                     "--jobs", str(jobs), *options.filter]
        if user == "user" and os.geteuid() == 0:
            shared = [HERE, os.path.dirname(os.path.dirname(os.path.realpath(options.cgtree))),
                      os.path.realpath(options.payloads)]
            command = [os.path.join(HERE, "userhost.sh"), *[word for path in shared for word in ("--share", path)],
                       "--", "python3", *arguments]
        else:
            command = [sys.executable, *arguments]
        self.process = subprocess.Popen(command, pass_fds=[theirs], stdin=subprocess.DEVNULL)
        os.close(theirs)
        self.stream = os.fdopen(ours)

    def finish(self):
        """(results, status): a test of which nothing was heard has failed, or was skipped with its whole half."""
        results = [hosts.Result(**json.loads(line)) for line in self.stream]
        status = self.process.wait()
        heard = {result.name for result in results}
        for name in self.names:
            if name not in heard and status == hosts.SKIP:
                results.append(hosts.Result(name, "skipped", f"no place for the half of {self.user} here"))
            elif name not in heard:
                results.append(hosts.Result(name, "failed", f"the half of {self.user} ended with status {status}"))
        return results, status


def run(script, options, tests):
    """tests: for each user the (name, function) pairs.  (results, broken halves), or (None, exit status)."""
    picked = {user: chosen(tests[user], options.filter) for user in USERS}
    if options.half:
        return None, run_half(options, picked[options.half])
    if os.geteuid() != 0:
        picked["root"] = []
    if options.list:
        print("\n".join(name for user in USERS for name, _ in picked[user]))
        return None, 0
    users = [user for user in USERS if picked[user]]
    jobs = max(1, options.jobs // max(1, len(users)))
    halves = [Half(script, options, user, jobs, [name for name, _ in picked[user]]) for user in users]
    signal.signal(signal.SIGTERM, lambda *_: [half.process.terminate() for half in halves])
    results, broken = [], []
    for half in halves:
        found, status = half.finish()
        results += found
        if status not in (0, hosts.SKIP):
            broken.append(f"the half of {half.user} ended with status {status}")
    return results, broken


def main(script, description, name, things, tests):
    """For a suite whose results are a list; tests(user): its (name, function) pairs.  The exit status."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options = parse(parser)
    started = now()
    results, broken = run(script, options, {user: tests(user) for user in USERS})
    if results is None:
        return broken
    for result in results:
        note = f"  ({result.text})" if result.text and result.outcome == "passed" else ""
        print(f"{result.outcome:8} {result.seconds:6.2f} s  {result.name}{note}")
    print_failures(results)
    print_skips(results)
    return summary(name, things, results, broken, now() - started)


def print_failures(results):
    for result in results:
        if result.outcome == "failed":
            print(f"\nFAILED {result.name} ({result.seconds:.2f} s)\n  {result.text}")


def print_skips(results):
    reasons = {}
    for result in results:
        if result.outcome == "skipped" or result.text.startswith("limit"):
            reasons.setdefault(f"{result.outcome}: {result.text}", []).append(result.name)
    for reason, names in sorted(reasons.items()):
        if not reason.startswith("failed"):
            print(f"{len(names):4} {reason}" + (f" ({names[0]})" if len(names) == 1 else ""))


def summary(name, things, results, broken, seconds):
    """The last lines, and the exit status."""
    count = {outcome: sum(result.outcome == outcome for result in results)
             for outcome in ("passed", "failed", "skipped")}
    for line in broken:
        print(f"BROKEN {line}")
    print(f"{name}: {len(results)} {things}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped"
          f" in {seconds:.0f} s")
    if count["failed"] or broken:
        return 1
    return 0 if count["passed"] else hosts.SKIP
