#!/usr/bin/env python3
"""What the tool promises, one test for each promise; the letter and number before a name is the case from the field that it
comes from.  As root and as an unprivileged user in a delegated subtree.

    acceptance.py --cgtree PATH --payloads DIR [WORD...]     WORDs choose the tests whose names have them all
"""

import argparse
import sys

import accept_doctor  # noqa: F401
import accept_end  # noqa: F401  each of these adds its tests to the registry
import accept_host  # noqa: F401
import accept_limits  # noqa: F401
import accept_owner  # noqa: F401
import accept_run  # noqa: F401
import accept_terminal  # noqa: F401
import registry
import suite
from kernel import now


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options = suite.parse(parser)
    started = now()
    results, broken = suite.run(__file__, options, {user: registry.of_user(user) for user in suite.USERS})
    if results is None:
        return broken
    for result in results:
        note = f"  ({result.text})" if result.text and result.outcome == "passed" else ""
        print(f"{result.outcome:8} {result.seconds:6.2f} s  {result.name}{note}")
    suite.print_failures(results)
    suite.print_skips(results)
    return suite.summary("acceptance", "tests", results, broken, now() - started)


if __name__ == "__main__":
    sys.exit(main())
