#!/usr/bin/env python3
"""What the tool promises, one test for each promise; the letter and number before a name is the case from the field that it
comes from.  As root and as an unprivileged user in a delegated subtree.

    acceptance.py --cgtree PATH --payloads DIR [WORD...]     WORDs choose the tests whose names have them all
"""

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


if __name__ == "__main__":
    sys.exit(suite.main(__file__, __doc__, "acceptance", "tests", registry.of_user))
