#!/usr/bin/env python3
"""Proves that law.py can fail: each law broken in a small tree of its own, and a lawful tree left in peace."""
import contextlib
import io
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import law  # noqa: E402

LAWFUL = '#include "process.h"\n#include "util.h"\n\nint process_id(void) {\n        return 1;\n}\n'


def long_function(lines):
    return "static int long_one(int a,\n        int b) {\n" + "        a++;\n" * (lines - 3) + "}\n"


class LawTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="cgtree-law-"))
        self.addCleanup(shutil.rmtree, self.root)
        for folder in ("lib", "tools", "tests"):
            (self.root / folder).mkdir()
        self.put("lib/process.c", LAWFUL)

    def put(self, path, text):
        (self.root / path).write_text(text)

    def judge(self, check):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = law.main([str(self.root), check])
        return status, said.getvalue()

    def assert_broken(self, check, *words):
        status, said = self.judge(check)
        self.assertEqual(status, 1, said)
        for word in words:
            self.assertIn(word, said)

    def assert_lawful(self, check):
        status, said = self.judge(check)
        self.assertEqual(status, 0, said)

    def test_lawful(self):
        self.put("tools/cmd-run.c", '#include "cgtree.h"\n#include "cmd.h"\n')
        self.put("tools/cmd.h", "#include <stdio.h>\n")
        self.put("tools/cgtree-gate.c", '#include "gate.h"\n')
        for check in ("includes", "sizes", "quiet"):
            self.assert_lawful(check)

    def test_include_above(self):
        self.put("lib/cgroup.h", '\n#include "tree.h"\n')
        self.assert_broken("includes", "cgroup.h:2:", "above")

    def test_include_beside(self):
        self.put("lib/cgroup.c", '#include "process.h"\n')
        self.assert_broken("includes", "cgroup.c:1:", "beside")

    def test_noun_of_several_files(self):
        self.put("lib/tree-state.c", '#include "tree.h"\n#include "tree-state.h"\n')
        self.assert_lawful("includes")
        self.put("lib/tree-state.c", '#include "find.h"\n')
        self.assert_broken("includes", "tree-state.c:1:", "above")

    def test_acquainted(self):
        self.put("lib/tree.c", '#include "owner.h"\n')
        self.assert_lawful("includes")
        self.put("lib/tree.h", '#include "owner.h"\n')
        self.assert_broken("includes", "tree.h:1:", "above")

    def test_unknown_noun(self):
        self.put("lib/helpers.c", "")
        self.assert_broken("includes", "helpers.c", "no layer")

    def test_unknown_include(self):
        self.put("lib/sweep.c", '#include "misc.h"\n')
        self.assert_broken("includes", "sweep.c:1:", "no layer")

    def test_public_header(self):
        self.put("lib/cgtree.h", '#include "util.h"\n')
        self.assert_broken("includes", "cgtree.h:1:")

    def test_tool_looks_inside(self):
        self.put("tools/cmd-run.c", '#include "cgroup.h"\n')
        self.assert_broken("includes", "cmd-run.c:1:")

    def test_helper_looks_too_high(self):
        self.put("tools/cgtree-reaper.c", '#include "owner.h"\n')
        self.assert_broken("includes", "cgtree-reaper.c:1:")

    def test_long_file(self):
        self.put("lib/util.c", "\n" * 600)
        self.assert_lawful("sizes")
        self.put("lib/util.c", "\n" * 601)
        self.assert_broken("sizes", "601 lines")

    def test_long_function(self):
        self.put("tools/cmd-run.c", "struct a {\n        int b;\n};\n\n" + long_function(100))
        self.assert_lawful("sizes")
        self.put("tools/cmd-run.c", "struct a {\n        int b;\n};\n\n" + long_function(101))
        self.assert_broken("sizes", "cmd-run.c:5:", "long_one() has 101 lines")

    def test_braces_in_text_do_not_count(self):
        self.put("tools/cmd-run.c", '/*\n}\n*/\n' + long_function(101).replace("a++;", "/* } */", 1))
        self.assert_broken("sizes", "long_one() has 101 lines")

    def test_printing(self):
        self.put("lib/kill.c", '#include <stdio.h>\n\nint a(void) {\n        fprintf(stderr, "x");\n}\n')
        self.assert_broken("quiet", "kill.c:4:")
        self.put("lib/kill.c", 'int a(void) {\n        printf("x");\n}\n')
        self.assert_broken("quiet", "kill.c:2:")
        self.put("lib/kill.c", '/* printf(3) is not used */\nint a(char *b) {\n        snprintf(b, 1, "stderr");\n}\n')
        self.assert_lawful("quiet")

    @unittest.skipUnless(law.clang_format(), "clang-format 14 is not installed")
    def test_format(self):
        self.put(".clang-format", "BasedOnStyle: LLVM\nIndentWidth: 8\nAllowShortFunctionsOnASingleLine: None\n")
        self.put("lib/process.c", "int a(void) {\n        return 1;\n}\n")
        self.assert_lawful("format")
        self.put("lib/process.c", "int a(void) {\n    return 1;\n}\n")
        self.assert_broken("format", "process.c:")


if __name__ == "__main__":
    unittest.main()
