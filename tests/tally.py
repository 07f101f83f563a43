#!/usr/bin/env python3
"""tally.py TESTLOG.json: what a meson test run came to, as 'PASSED FAILED SKIPPED' on stdout.

A test that counts its own cases (Check's "Checks: N, Failures: N, Errors: N", or at last "N passed, N failed, N skipped") is
taken at its word, any other counts for one. A test that failed counts one failure at least. Why a test
was skipped is said on stderr: the last line it printed.
"""
import json
import re
import sys

CHECK = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$", re.M)
PLAIN = re.compile(r"\b(\d+) passed, (\d+) failed(?:, (\d+) skipped)?")


def cases(output):
    """(passed, failed, skipped) as the test itself counts, or None."""
    checks = CHECK.findall(output)
    if checks:
        total, failures, errors = (sum(int(row[i]) for row in checks) for i in range(3))
        return total - failures - errors, failures + errors, 0
    plain = PLAIN.findall(output)
    if plain:
        return tuple(int(n or 0) for n in plain[-1])
    return None


def judge(test):
    if test["result"] == "SKIP":
        lines = test.get("stdout", "").strip().splitlines()
        print(f"skipped: {test['name']}: {lines[-1].removeprefix('skipped: ') if lines else 'no reason given'}", file=sys.stderr)
        return 0, 0, 1
    good = test["result"] in ("OK", "EXPECTEDFAIL")
    passed, failed, skipped = cases(test.get("stdout", "")) or (int(good), 0, 0)
    return passed, failed if good else max(failed, 1), skipped


def main(path):
    with open(path, encoding="utf-8") as log:
        rows = [judge(json.loads(line)) for line in log]
    print(*(sum(column) for column in zip(*rows)) if rows else (0, 0, 0))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
