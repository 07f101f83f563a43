#!/usr/bin/env python3
"""The laws of the source tree, checked: law.py ROOT CHECK...

includes  a file includes only what stands below it (the table LAYERS); tools see the public header alone
sizes     a file has 600 lines at most, a function 100
quiet     the library never prints
format    every source is as clang-format would have it (exit 77 where clang-format 14 is not installed)

Exit status: 0 lawful, 1 broken (each place is named), 77 skipped.
"""
import pathlib
import re
import shutil
import subprocess
import sys

# Lowest first. A file may include its own header and those of lower rows: nothing above, nothing beside it.
LAYERS = [
    {"util", "raw-syscall"},
    {"process", "cgroup"},
    {"record", "lineage"},
    {"records", "identity"},
    {"child", "stub", "bus", "cgroup-limits"},
    {"gate", "spawn", "kill", "unit", "scope"},
    {"guard", "kill-set"},
    {"command", "base", "home", "placement", "group"},
    {"tree"},
    {"deadlines"},
    {"owner"},
    {"placement-cgroup"},
    {"placement-subtree", "placement-scope", "placement-group"},
    {"find"},
    {"sweep"},
    {"watch", "doctor"},
]
# The one pair that knows each other: a tree lives in its owner's books, and the calls on it go through them. Only the
# sources may look up like this; the headers keep to the rows.
ACQUAINTED = {("tree", "owner")}
PUBLIC = "cgtree"
# These programs stand between the owner and the command and link the low layers, up to this row.
HELPERS = {"cgtree-gate", "cgtree-guard", "cgtree-reaper", "reaper-terminal"}
HELPERS_MAY = LAYERS[:6]

FILE_LINES = 600
FUNCTION_LINES = 100

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
PRINTS = re.compile(r"\b(?:(?:v?printf|puts|putchar|perror|warnx?|errx?|psignal)(?=\()|stdout\b|stderr\b)")
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def sources(root, *folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*.[ch]")):
            yield path


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def bare(text):
    """The text without comments and literals, line for line."""
    return COMMENT_OR_STRING.sub(lambda m: "\n" * m.group().count("\n"), text)


def noun_of(stem):
    """A noun of several files: tree-state.c belongs to tree."""
    while not any(stem in nouns for nouns in LAYERS) and "-" in stem:
        stem = stem.rpartition("-")[0]
    return stem


def layer_of(noun):
    for number, nouns in enumerate(LAYERS):
        if noun in nouns:
            return number
    return None


def judge_lib_include(path, wanted):
    noun = noun_of(path.stem)
    if wanted == noun or wanted == PUBLIC:
        return None
    if (noun, wanted) in ACQUAINTED and path.suffix == ".c":
        return None
    if layer_of(wanted) is None:
        return f"includes '{wanted}', which stands in no layer"
    if layer_of(wanted) == layer_of(noun):
        return f"includes '{wanted}', which stands beside it"
    if layer_of(wanted) > layer_of(noun):
        return f"includes '{wanted}', which stands above it"
    return None


def judge_tool_include(root, noun, header, wanted):
    if wanted == PUBLIC or (root / "tools" / header).is_file():
        return None
    if noun in HELPERS and any(wanted in layer for layer in HELPERS_MAY):
        return None
    return f"includes '{header}': a tool sees cgtree.h and the headers of tools/ alone"


def check_includes(root):
    for path in sources(root, "lib", "tools"):
        text = path.read_text()
        in_lib = path.parent.name == "lib"
        if in_lib and path.stem != PUBLIC and layer_of(noun_of(path.stem)) is None:
            yield path, 1, f"'{path.stem}' stands in no layer: give it a place in LAYERS"
            continue
        for match in INCLUDE.finditer(text):
            header = match.group(1)
            wanted = noun_of(pathlib.PurePath(header).stem)
            if path.name == PUBLIC + ".h":
                fault = f"the public header includes '{header}', which no user has"
            elif in_lib:
                fault = judge_lib_include(path, wanted)
            else:
                fault = judge_tool_include(root, path.stem, header, wanted)
            if fault:
                yield path, line_of(text, match.start()), fault


def functions(text):
    """(name, first line, number of lines) of each function; relies on the settled format: bodies end with } in column 0."""
    start = name = None
    opened = False
    for number, line in enumerate(bare(text).split("\n"), 1):
        if opened:
            if line.startswith("}"):
                yield name, start, number - start + 1
                opened = False
            continue
        if re.match(r"[A-Za-z_]", line):
            start = number
            called = re.search(r"(\w+)\(", line)
            name = called.group(1) if called else None
        if line.endswith(";") or not line:
            start = name = None
        elif start is not None and name is not None and line.endswith(") {"):
            opened = True


def check_sizes(root):
    for path in sources(root, "lib", "tools", "tests"):
        text = path.read_text()
        lines = text.count("\n")
        if lines > FILE_LINES:
            yield path, lines, f"{lines} lines, more than {FILE_LINES}"
        for name, start, length in functions(text):
            if length > FUNCTION_LINES:
                yield path, start, f"{name}() has {length} lines, more than {FUNCTION_LINES}"


def check_quiet(root):
    for path in sources(root, "lib"):
        text = bare(path.read_text())
        for match in PRINTS.finditer(text):
            yield path, line_of(text, match.start()), f"'{match.group()}': the library never prints"


def clang_format():
    for name in ("clang-format-14", "clang-format"):
        program = shutil.which(name)
        if program and " 14." in subprocess.run([program, "--version"], capture_output=True, text=True).stdout:
            return program
    return None


def check_format(root):
    files = [str(path) for path in sources(root, "lib", "tools", "tests")]
    if not files:
        return
    done = subprocess.run([clang_format(), "--dry-run", "-Werror", "--style=file", *files], capture_output=True, text=True)
    for match in re.finditer(r"^(.+?):(\d+):\d+: error: ", done.stderr, re.M):
        yield pathlib.Path(match.group(1)), int(match.group(2)), "not as clang-format would have it"
    if done.returncode != 0 and not re.search(r": error: ", done.stderr):
        yield root, 0, done.stderr.strip()


CHECKS = {"includes": check_includes, "sizes": check_sizes, "quiet": check_quiet, "format": check_format}


def main(arguments):
    if len(arguments) < 2 or not set(arguments[1:]) <= set(CHECKS):
        print(__doc__, file=sys.stderr)
        return 2
    root = pathlib.Path(arguments[0]).resolve()
    if "format" in arguments[1:] and clang_format() is None:
        print("skipped: clang-format 14 is not installed")
        return 77
    broken = 0
    for name in arguments[1:]:
        for path, line, fault in CHECKS[name](root):
            print(f"{path}:{line}: {fault} [{name}]")
            broken += 1
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
