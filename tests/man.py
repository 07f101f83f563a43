#!/usr/bin/env python3
"""man.py CGTREE DOCS SCDOC [MANDOC]: the man pages build clean, and say of options what --help says: no more and no less."""
import pathlib
import re
import subprocess
import sys

OPTION = re.compile(r"(?<![\w-])(--?[a-zA-Z][a-z-]*)")


def options_of_help(cgtree, verb):
    """Options stand at the beginning of a line of --help; what is spoken of elsewhere does not count."""
    text = subprocess.run([cgtree, *verb, "--help"], capture_output=True, text=True, check=True).stdout
    found = set()
    for line in text.splitlines():
        declared = re.match(r"\s+(-.*?)(?:\s{2,}|$)", line)
        if declared:
            found |= set(OPTION.findall(declared.group(1)))
    return found


def options_of_page(source):
    """Options are declared in the section OPTIONS by lines that begin with *-."""
    section = re.search(r"^# OPTIONS\n(.*?)(?=^# |\Z)", source, re.M | re.S)
    if not section:
        return set()
    return {option for line in re.findall(r"^\*-.*$", section.group(1), re.M) for option in OPTION.findall(line)}


def judge_page(page, scdoc, mandoc):
    built = subprocess.run([scdoc], stdin=page.open("rb"), capture_output=True)
    if built.returncode != 0:
        return [f"{page.name}: {built.stderr.decode().strip()}"]
    if not mandoc:
        return []
    read = subprocess.run([*mandoc, "-T", "lint", "-W", "error"], input=built.stdout, capture_output=True)
    return [f"{page.name}: {line}" for line in read.stdout.decode().splitlines()]


def judge_options(cgtree, page, verb):
    said, written = options_of_help(cgtree, verb), options_of_page(page.read_text())
    faults = [f"{page.name}: {option} of --help is not in the page" for option in sorted(said - written)]
    faults += [f"{page.name}: {option} is not in --help" for option in sorted(written - said)]
    if not said:
        faults.append(f"{page.name}: no option found in the --help of {' '.join(verb) or 'cgtree'}")
    return faults


def main(cgtree, docs, scdoc, *mandoc):
    faults = []
    pages = sorted(pathlib.Path(docs).glob("*.scd"))
    for page in pages:
        faults += judge_page(page, scdoc, mandoc)
        command = re.match(r"cgtree(?:-(\w+))?\.1\.scd$", page.name)
        if command:
            faults += judge_options(cgtree, page, [command.group(1)] if command.group(1) else [])
    print(*faults or [f"{len(pages)} pages"], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
