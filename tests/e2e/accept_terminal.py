"""On a terminal: whose keys, whose foreground, whose modes."""

import signal

from cell import expect
from kernel import wait_state
from registry import BACKENDS, test
from terminal import Terminal, shell


def signals_told(report, number):
    return sum(line.startswith(f"signal {int(number)} ") for line in report.lines)


def run_words(cell, backend, *options):
    return " ".join([cell.host.cgtree, "run", "-q", f"--backend={backend}", *options, "--"])


@test("^C at an interactive python interrupts it, and it lives", backends=BACKENDS)
def python_prompt(cell, backend):
    terminal = Terminal(cell, [cell.host.cgtree, "run", "-q", f"--backend={backend}", "--", "/usr/bin/python3", "-i",
                               "-c", "import sys; sys.ps1 = 'py> '"], PYTHON_COLORS="0", PYTHONSTARTUP="")
    terminal.wait_for("py> ")
    # many short sleeps: python misses an interrupt that comes in the instant before a sleep, until that is over
    terminal.type("import time; print('slee' + 'ping'); [time.sleep(0.01) for _ in iter(int, 1)]\n")
    terminal.wait_for("sleeping")
    terminal.key("c")
    terminal.wait_for("KeyboardInterrupt")
    terminal.wait_for("py> ")
    terminal.type("print(6 * 7)\n")
    terminal.wait_for("42")
    terminal.type("raise SystemExit(5)\n")
    code = terminal.running.wait(5)
    expect(code == 5, f"status {code}")
    cell.expect_clean()


@test("E20 a typed ^C arrives exactly once", backends=BACKENDS)
def one_interrupt(cell, backend):
    report = cell.report()
    terminal = Terminal(cell, [cell.host.cgtree, "run", "-q", f"--backend={backend}", "--", cell.payload("tell-signals"),
                               f"--report={report.path}", "--end=trap:6"])
    report.wait_ready()
    for letter, number in (("c", signal.SIGINT), ("\\", signal.SIGQUIT)):
        terminal.key(letter)
        expect(report.wait(lambda: signals_told(report, number), 5), f"{number!r} did not arrive: {report.lines}")
    # a second one sent on, if there was one, would have come before this
    terminal.running.signal(signal.SIGUSR1)
    expect(report.wait(lambda: signals_told(report, signal.SIGUSR1), 5), f"{report.lines}")
    for number in (signal.SIGINT, signal.SIGQUIT):
        expect(signals_told(report, number) == 1, f"{number!r} arrived more than once: {report.lines}")
    terminal.running.signal(signal.SIGTERM)
    code = terminal.running.wait(5)
    expect(code == 6, f"status {code}")
    cell.expect_clean()


@test("^C ends a command that does not catch it, and run dies of it too", backends=BACKENDS)
def interrupted(cell, backend):
    report = cell.report()
    terminal = Terminal(cell, [cell.host.cgtree, "run", "-q", f"--backend={backend}", "--", cell.payload("canary"),
                               f"--report={report.path}"])
    report.wait_ready()
    terminal.key("c")
    code = terminal.running.wait(5)
    expect(code == -signal.SIGINT, f"return code {code}")
    cell.expect_clean()


@test("a shell's loop stops at ^C", backends=BACKENDS)
def loop_stops(cell, backend):
    report = cell.report()
    terminal = shell(cell)
    command = f"{run_words(cell, backend)} {cell.payload('canary')} --report={report.path}"
    terminal.type(f"for i in 1 2 3; do echo round $i; {command}; done\n")
    terminal.wait_for("\nround 1\n")
    report.wait_ready()
    terminal.key("c")
    terminal.wait_for("ready> ")
    terminal.type("echo after\n")
    terminal.wait_for("\nafter\n")
    expect("round 2" not in terminal.shown, terminal.shown)
    terminal.type("exit 0\n")
    terminal.running.wait(5)
    cell.expect_clean()


@test("F22 the command reads the terminal", backends=BACKENDS)
def reads_terminal(cell, backend):
    terminal = Terminal(cell, [cell.host.cgtree, "run", "-q", f"--backend={backend}", "--", "cat"])
    terminal.type("a line\n")
    terminal.wait_for("a line\na line\n")
    terminal.key("d")
    code = terminal.running.wait(5)
    expect(code == 0, f"status {code}")
    cell.expect_clean()


@test("the foreground is handed back when the command ends", backends=BACKENDS)
def handed_back(cell, backend):
    terminal = shell(cell)
    group = terminal.running.pid
    terminal.type(f"{run_words(cell, backend)} sh -c 'read x; echo got:$x; exit 3'; echo status:$?\n")
    terminal.wait_for(r"status:\$\?\n")
    terminal.type("word\n")
    terminal.wait_for("got:word\n")
    terminal.wait_for("status:3\n")
    terminal.wait_for("ready> ")
    terminal.wait_foreground(group)
    terminal.type("read y; echo shell:$y\n")
    terminal.type("two\n")
    terminal.wait_for("shell:two\n")
    terminal.type("exit 0\n")
    terminal.running.wait(5)
    cell.expect_clean()


@test("F21 the foreground is the caller's again after a kill", backends=BACKENDS)
def foreground_after_kill(cell, backend):
    report, terminal = cell.report(), shell(cell)
    terminal.type(f"{run_words(cell, backend)} {cell.payload('canary')} --report={report.path}\n")
    report.wait_ready()
    expect(terminal.foreground() != terminal.running.pid, "the tree's group never was the foreground one")
    code, kill = cell.tool("kill", "--now", cell.record_ids()[0])
    expect(code == 0, f"{kill}")
    terminal.wait_for("Killed")
    terminal.wait_for("ready> ")
    terminal.wait_foreground(terminal.running.pid)
    terminal.type("read y; echo shell:$y\n")
    terminal.type("two\n")
    terminal.wait_for("shell:two\n")
    terminal.type("exit 0\n")
    terminal.running.wait(5)
    cell.expect_clean()


@test("F21 a caller without job control has the terminal again", backends=BACKENDS)
def foreground_of_script(cell, backend):
    script = f"{run_words(cell, backend)} sh -c 'exit 4'; echo status:$?; read y; echo script:$y"
    terminal = Terminal(cell, ["sh", "-c", script])
    terminal.wait_for("status:4\n")
    terminal.wait_foreground(terminal.running.pid)
    terminal.type("two\n")
    terminal.wait_for("script:two\n")
    terminal.running.wait(5)
    cell.expect_clean()


@test("F23 a raw terminal is itself again after a timeout", backends=BACKENDS)
def raw_terminal(cell, backend):
    terminal = Terminal(cell, [cell.host.cgtree, "run", "-q", f"--backend={backend}", "--timeout", "700ms", "--", "sh",
                               "-c", "stty raw -echo; printf 'is''raw'; exec sleep 30"])
    before = {"ICANON", "ECHO", "ISIG"}
    terminal.wait_for("israw")
    expect(terminal.modes() == set(), f"raw: {terminal.modes()}")
    code = terminal.running.wait(10)
    expect(code == 124, f"status {code}")
    expect(terminal.modes() == before, f"afterwards: {terminal.modes()}")
    cell.expect_clean()


@test("what a command that ends by itself did to the terminal is left", backends=BACKENDS)
def own_modes(cell, backend):
    terminal = Terminal(cell, [cell.host.cgtree, "run", "-q", f"--backend={backend}", "--", "stty", "-echo"])
    code = terminal.running.wait(10)
    expect(code == 0 and terminal.modes() == {"ICANON", "ISIG"}, f"status {code}, modes {terminal.modes()}")
    cell.expect_clean()


@test("a background job does not stop on SIGTTOU", backends=BACKENDS)
def background_job(cell, backend):
    for tostop in ("-tostop", "tostop"):
        terminal = shell(cell)
        terminal.type(f"stty {tostop}\n")
        terminal.wait_for("ready> ")
        terminal.type(f"{run_words(cell, backend, '--timeout=200ms')} sleep 30 >/dev/null 2>&1 & wait $!; echo status:$?\n")
        terminal.wait_for("status:124\n")
        expect(terminal.foreground() == terminal.running.pid, "a background job took the foreground")
        terminal.type("exit 0\n")
        terminal.running.wait(5)
        cell.expect_clean()


@test("^Z stops the job, fg goes on with it", backends=BACKENDS)
def stop_and_continue(cell, backend):
    terminal = shell(cell)
    report = cell.report()
    script = (f"exec 9>{report.path}; echo member role=root pid=$$ cgroup= >&9; echo ready >&9; "
              "read x; echo got:$x; exit 3")
    terminal.type(f"{run_words(cell, backend)} sh -c '{script}'\n")
    report.wait_ready()
    for _ in range(2):
        # in `group`, a key typed before the command has the terminal is cgtree's own
        if backend == "group":
            terminal.wait_foreground(int(report.member("root")["pid"]))
        else:
            terminal.wait_not_foreground(terminal.running.pid)
        terminal.key("z")
        terminal.wait_for("Stopped")
        terminal.wait_for("ready> ")
        # a command that has not yet noticed its stop would still read what is typed now
        expect(wait_state(report.member("root")["pid"], "T", 5), "the command is not stopped")
        terminal.wait_foreground(terminal.running.pid)
        terminal.type("fg\n")
        terminal.wait_for("exit 3'")
    terminal.wait_not_foreground(terminal.running.pid)
    terminal.type("word\n")
    terminal.wait_for("got:word\n")
    terminal.wait_for("ready> ")
    terminal.wait_foreground(terminal.running.pid)
    terminal.type("echo $((40 + 2))\n")
    terminal.wait_for("\n42\n")
    terminal.type("exit 0\n")
    terminal.running.wait(5)
    cell.expect_clean()


@test("a job stopped in the background goes on there at bg", backends=BACKENDS)
def stop_and_background(cell, backend):
    report, terminal = cell.report(), shell(cell)
    terminal.type(f"{run_words(cell, backend)} {cell.payload('canary')} --report={report.path} --end=exit:3\n")
    report.wait_ready()
    terminal.key("z")
    terminal.wait_for("Stopped")
    terminal.wait_for("ready> ")
    terminal.type("bg\n")
    terminal.wait_for("ready> ")
    report.go()
    terminal.type("wait %1; echo status:$?\n")
    terminal.wait_for("status:3\n")
    terminal.wait_foreground(terminal.running.pid)
    terminal.type("exit 0\n")
    terminal.running.wait(5)
    cell.expect_clean()


@test("a hangup of the terminal ends the tree", backends=BACKENDS)
def hangup(cell, backend):
    report = cell.report()
    terminal = Terminal(cell, [cell.host.cgtree, "run", "-q", f"--backend={backend}", "--grace=20s", "--",
                               cell.payload("setsid-child"), f"--report={report.path}"])
    report.wait_ready()
    terminal.hang_up()
    code = terminal.running.wait(5)
    expect(code == -signal.SIGHUP, f"return code {code}")
    expect(report.wait_end(0.05), "a member lives")
    cell.expect_clean()
