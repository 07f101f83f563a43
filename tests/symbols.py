#!/usr/bin/env python3
"""symbols.py NM HEADER VERSION-SCRIPT PAGE LIBRARY: all four name the same functions, no more and no fewer."""
import re
import subprocess
import sys


def in_header(path):
    with open(path, encoding="utf-8") as header:
        text = re.sub(r"/\*.*?\*/", "", header.read(), flags=re.S)
    return set(re.findall(r"^(?!typedef)[a-z].*?\b(cgtree_\w+)\(", text, re.M))


def in_script(path):
    with open(path, encoding="utf-8") as script:
        return set(re.findall(r"^\s+(\w+);", script.read(), re.M))


def in_page(path):
    with open(path, encoding="utf-8") as page:
        return set(re.findall(r"\*(cgtree_\w+)\*\(\)", page.read()))


def in_library(path, nm):
    listing = subprocess.run([nm, "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    return {name.split("@")[0] for kind, name in re.findall(r" ([A-Z]) (\S+)$", listing, re.M) if kind != "A"}


def main(nm, header, script, page, library):
    named = {
        "the header": in_header(header),
        "the version script": in_script(script),
        "the man page": in_page(page),
        "the library": in_library(library, nm),
    }
    everything = set.union(*named.values())
    for place, names in named.items():
        for name in sorted(everything - names):
            print(f"{name} is not in {place}")
    if not everything or any(names != everything for names in named.values()):
        return 1
    print(f"{len(everything)} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
