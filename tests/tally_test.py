#!/usr/bin/env python3
"""tally.py counts what tests say of themselves, and never makes a failure disappear."""
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import tally  # noqa: E402


class TallyTest(unittest.TestCase):
    def tally(self, *tests):
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as log:
            self.addCleanup(os.unlink, log.name)
            for result, stdout in tests:
                log.write(json.dumps({"name": "t", "result": result, "stdout": stdout}) + "\n")
        said, reasons = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(reasons):
            tally.main(log.name)
        self.reasons = reasons.getvalue()
        return said.getvalue().strip()

    def test_plain_tests_count_for_one(self):
        self.assertEqual(self.tally(("OK", ""), ("OK", "x"), ("FAIL", ""), ("TIMEOUT", "")), "2 2 0")

    def test_no_test(self):
        self.assertEqual(self.tally(), "0 0 0")

    def test_check_counts_its_own(self):
        self.assertEqual(self.tally(("FAIL", "83%: Checks: 6, Failures: 1, Errors: 0\nx\n100%: Checks: 4, Failures: 0, Errors: 0")), "9 1 0")

    def test_last_line_counts(self):
        self.assertEqual(self.tally(("OK", "1 passed, 9 failed\nmatrix: 480 cells: 470 passed, 0 failed, 10 skipped in 9 s\n")), "470 0 10")

    def test_a_failure_never_disappears(self):
        self.assertEqual(self.tally(("ERROR", "5 passed, 0 failed")), "5 1 0")

    def test_skipped_with_its_reason(self):
        self.assertEqual(self.tally(("SKIP", "x\nskipped: no cgroup2\n")), "0 0 1")
        self.assertIn("no cgroup2", self.reasons)


if __name__ == "__main__":
    unittest.main()
