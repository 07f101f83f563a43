"""Where the tool is run on a machine that systemd manages, and the placement that is expected there.  This table is the one
place to edit when what `auto` takes changes."""

import collections
import re

TESTER, PLAIN = 1000, 1001  # users: with a manager of its own, and without (image.sh)
USER_MANAGER = ["setpriv", "--reuid=1000", "--regid=1000", "--init-groups", "env", "HOME=/home/tester", "USER=tester",
                "LOGNAME=tester", "XDG_RUNTIME_DIR=/run/user/1000",
                "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus"]
SERVICE = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--working-directory=/mnt/share"]
USER_SERVICE = [*USER_MANAGER, SERVICE[0], "--user", *SERVICE[1:]]
LOGIN = ["su", "-l", "-c", 'cd /mnt/share && exec "$@"', "tester", "--", "sh"]  # through PAM, which makes the session

# letter, name; how a command comes there, as root; the cgroup it is in then, and its user; where records go by default;
# and what is expected, for each version of systemd, or for all of them alike:
#   auto       without any option
#   base_self  with CGTREE_BASE=self; None: that is refused, and `auto` takes group
Place = collections.namedtuple("Place", "letter name how cgroup uid records auto base_self")

PLACES = [
    Place("a", "root-delegated", [*SERVICE, "--property=Delegate=yes"], r"/system\.slice/run-.*\.service", 0,
          "/run/cgtree", auto="subtree", base_self="subtree"),
    Place("b", "root-service", SERVICE, r"/system\.slice/run-.*\.service", 0,
          "/run/cgtree", auto="group", base_self="subtree"),
    Place("c", "user-service", USER_SERVICE, r"/user\.slice/user-1000\.slice/user@1000\.service/.*\.service", TESTER,
          "/run/user/1000/cgtree", auto="group", base_self="subtree"),
    # a user's manager leaves no mark on what it has delegated
    Place("c", "user-delegated", [*USER_SERVICE, "--property=Delegate=yes"],
          r"/user\.slice/user-1000\.slice/user@1000\.service/.*\.service", TESTER,
          "/run/user/1000/cgtree", auto="group", base_self="subtree"),
    Place("d", "session", LOGIN, r"/user\.slice/user-1000\.slice/session-.*\.scope", TESTER,
          "/run/user/1000/cgtree", auto="group", base_self=None),
    Place("e", "plain-service", [*SERVICE, "--uid=plain"], r"/system\.slice/run-.*\.service", PLAIN,
          "/dev/shm/cgtree-1001", auto="group", base_self=None),
    # 247 marks what it has delegated so that only root sees it
    Place("e", "plain-delegated", [*SERVICE, "--uid=plain", "--property=Delegate=yes"],
          r"/system\.slice/run-.*\.service", PLAIN,
          "/dev/shm/cgtree-1001", auto={247: "group", 252: "subtree", 257: "subtree"}, base_self="subtree"),
]

# The reason that `auto` gives when it takes group, and what a refused CGTREE_BASE is told.
REASONS = {
    "auto": r"cgroup /\S+ is systemd's and not delegated: .*Delegate=yes.*CGTREE_BASE",
    "self": r"cgroup /\S+ is not writable for us",
    "elsewhere": r"processes cannot be put into \S+ from /\S+: /\S+/cgroup\.procs is not writable for us",
}


def of(name):
    return next(place for place in PLACES if place.name == name)


def expected(entry, version):
    return entry[version] if isinstance(entry, dict) else entry


def is_there(place, cgroup):
    return re.fullmatch(place.cgroup, cgroup) is not None


def columns(place, version):
    """The placements in which the matrix is run there, and how each is asked for: (name, backend, options, CGTREE_BASE).  What
    `auto` takes, and the other one where it can be had."""
    auto, base_self = expected(place.auto, version), expected(place.base_self, version)
    found = [("auto", auto, [], None)]
    if auto == "subtree":
        found.append(("group", "group", ["--backend=group"], None))
    elif base_self == "subtree":
        found.append(("self", "subtree", ["--backend=subtree"], "self"))
    return found
