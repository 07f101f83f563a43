"""A pseudo terminal with a program as the leader of its session: what is typed, what is shown, whose the foreground is."""

import os
import re
import select
import termios

from cell import expect
from kernel import deadline_in, now


class Terminal:
    def __init__(self, cell, argv, **environment):
        self.master, slave = os.openpty()
        path = os.ttyname(slave)
        self.shown = ""
        if os.geteuid() == 0:
            os.fchown(slave, os.geteuid(), -1)
        environment = {"TERM": "dumb", "PS1": "ready> ", "HISTFILE": "", **environment}
        self.running = cell.start(argv, caller=(f"--tty={path}",), environment=environment, stdout=None, stderr=None)
        self.slave = slave  # kept open, so that the terminal can be looked at after the session's end
        cell.terminals.append(self)

    def close(self):
        for fd in (self.master, self.slave):
            if fd >= 0:
                os.close(fd)

    def hang_up(self):
        os.close(self.master)
        self.master = -1

    def type(self, text):
        os.write(self.master, text.encode())

    def key(self, letter):
        """A key together with Control."""
        self.type(chr(ord(letter.upper()) - 64))

    def wait_for(self, pattern, seconds=10):
        """Waits until the terminal shows the pattern, and forgets all up to its end; the match."""
        deadline = deadline_in(seconds)
        while True:
            match = re.search(pattern, self.shown)
            if match:
                self.shown = self.shown[match.end():]
                return match
            ready = select.select([self.master], [], [], max(0, deadline - now()))[0]
            expect(ready, f"the terminal never showed {pattern!r}, but: {self.shown!r}")
            try:
                self.shown += os.read(self.master, 65536).decode(errors="replace").replace("\r\n", "\n")
            except OSError:
                expect(False, f"the terminal was hung up before it showed {pattern!r}: {self.shown!r}")

    def foreground(self):
        return os.tcgetpgrp(self.master)

    def wait_foreground(self, group, seconds=5):
        deadline = deadline_in(seconds)
        while self.foreground() != group:
            expect(now() < deadline, f"the foreground group is {self.foreground()}, not {group}")
            select.select([], [], [], 0.005)

    def wait_not_foreground(self, group, seconds=5):
        deadline = deadline_in(seconds)
        while self.foreground() == group:
            expect(now() < deadline, f"group {group} stays in the foreground")
            select.select([], [], [], 0.005)

    def modes(self):
        """The local modes that a program in raw mode takes away."""
        flags = termios.tcgetattr(self.slave)[3]
        return {name for name in ("ICANON", "ECHO", "ISIG") if flags & getattr(termios, name)}


def shell(cell, **environment):
    """An interactive shell with job control, ready for a command."""
    terminal = Terminal(cell, ["bash", "--norc", "--noprofile", "--noediting", "-i"], **environment)
    terminal.wait_for("ready> ")
    return terminal
