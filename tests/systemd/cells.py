"""Cells of the end-to-end matrix, in the placements of one place, and the tool's promises there."""

import signal

import acceptance  # noqa: F401  its modules add their tests to the registry
import matrix
import places
import registry
import scopes
from cell import Failed, Skipped, expect


class Run(matrix.Run):
    """A run whose placement is asked for as the column says, and whose message about it is judged."""

    def __init__(self, cell, payload, column, end):
        self.column, self.kind, self.options, self.base = column
        super().__init__(cell, payload, places.KINDS[self.kind][0], end)

    def start_tool(self, options, command):
        argv = [self.cell.host.cgtree, "run", *self.options, *options, "--", *command]
        return self.cell.start(argv, environment={"CGTREE_BASE": self.base})

    def check_start(self):
        super().check_start()
        self.cgroup = self.cell.record()["cgroup"] or self.cell.cgroup.name
        kind = places.kind_of(self.cgroup, self.cell.cgroup.name)
        expect(kind == self.kind, f"it is in {self.cgroup}, a {kind}")

    def end_by_kill(self):
        """The manager removes a scope that all have left: then only the tool still knows of its root."""
        if self.kind != "scope" or not self.out_of_reach():
            super().end_by_kill()
            return
        scopes.expect_gone(self.cgroup)
        code, kill = self.tool_kill()
        expect(code == 3 and not self.report.ended, f"kill gave {code}: {kill}")
        self.note = "limit: kill does not find a root that left its scope"
        self.tool.signal(signal.SIGTERM)

    def check_end(self):
        super().check_end()
        scopes.expect_gone(self.cgroup)

    def check_messages(self):
        super().check_messages()
        told = [line for line in self.tool.stderr.splitlines() if "weaker guarantee" in line]
        wanted = self.column == "auto" and self.backend == "group"
        expect(len(told) == int(wanted), f"lines about the placement: {told}")


def make_test(payload, column, end):
    def test(cell):
        run = Run(cell, payload, column, end)
        try:
            run.start()
            run.check_start()
            run.make_it_end()
            run.check_end()
        except Failed:
            if scopes.met_slow_manager(cell.running):
                raise Skipped(scopes.TOO_SLOW)
            raise
        return run.note
    return test


def tests(place, version, part, of):
    """A part of it: each cell is in one of the `of` parts, and in another one for each placement and place."""
    found = []
    for number, column in enumerate(places.columns(place, version)):
        shift = 2 * places.PLACES.index(place) + number
        for row, payload in enumerate(matrix.PAYLOADS):
            for end_number, end in enumerate(matrix.ENDS):
                if (row + end_number + shift) % of == part:
                    name = f"{place.name}/{column[0]}/{payload.name}/{end}"
                    found.append((name, make_test(payload, column, end)))
    return found + promises(place, part, of)


def promises(place, part, of):
    """The same part of the acceptance tests."""
    shift = places.PLACES.index(place)
    return [(f"{place.name}/promise/{name.partition('/')[2]}", function)
            for number, (name, function) in enumerate(registry.of_user("user" if place.uid else "root"))
            if (number + shift) % of == part]
