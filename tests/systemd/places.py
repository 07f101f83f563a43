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
# and what is expected, for each version of systemd, or for all of them alike, each a word of KINDS, or None: refused
#   auto       without any option
#   subtree    with --backend=subtree
#   scope      with --backend=scope
#   base_self  with CGTREE_BASE=self; None: that is refused, and `auto` takes group
# also: the other columns of the matrix there, besides auto
Place = collections.namedtuple("Place", "letter name how cgroup uid records auto subtree scope base_self also")

# What a place may be, as it is seen in the cgroup of a member, below our own or (\\1 is that of the manager) elsewhere; and the
# backend that the record names.
KINDS = {
    "subtree": ("subtree", r"OWN/cgtree-\d+-\w+/trees/\w{16}"),
    "owner-scope": ("subtree", r"/\S+\.slice/cgtree-[^/]+\.scope/cgtree-\d+-\w+/trees/\w{16}"),
    "scope": ("scope", r"/\S+\.slice/app-cgtree-[^/]+\.scope"),
    "group": ("group", r"OWN"),
}

PLACES = [
    Place("a", "root-delegated", [*SERVICE, "--property=Delegate=yes"], r"/system\.slice/run-.*\.service", 0,
          "/run/cgtree", auto="subtree", subtree="subtree", scope="scope", base_self="subtree", also=["group"]),
    Place("b", "root-service", SERVICE, r"/system\.slice/run-.*\.service", 0,
          "/run/cgtree", auto="owner-scope", subtree="owner-scope", scope="scope", base_self="subtree", also=["scope"]),
    Place("c", "user-service", USER_SERVICE, r"/user\.slice/user-1000\.slice/user@1000\.service/.*\.service", TESTER,
          "/run/user/1000/cgtree", auto="owner-scope", subtree="owner-scope", scope="scope", base_self="subtree", also=["group"]),
    Place("c", "user-delegated", [*USER_SERVICE, "--property=Delegate=yes"],
          r"/user\.slice/user-1000\.slice/user@1000\.service/.*\.service", TESTER,
          "/run/user/1000/cgtree", auto="subtree", subtree="subtree", scope="scope", base_self="subtree", also=["scope"]),
    Place("d", "session", LOGIN, r"/user\.slice/user-1000\.slice/session-.*\.scope", TESTER,
          "/run/user/1000/cgtree", auto="scope", subtree=None, scope="scope", base_self=None, also=["group"]),
    Place("e", "plain-service", [*SERVICE, "--uid=plain"], r"/system\.slice/run-.*\.service", PLAIN,
          "/dev/shm/cgtree-1001", auto="group", subtree=None, scope=None, base_self=None, also=[]),
    # 247 marks what it has delegated so that only root sees it
    Place("e", "plain-delegated", [*SERVICE, "--uid=plain", "--property=Delegate=yes"],
          r"/system\.slice/run-.*\.service", PLAIN, "/dev/shm/cgtree-1001",
          auto={247: "group", 252: "subtree", 257: "subtree"}, subtree={247: None, 252: "subtree", 257: "subtree"}, scope=None,
          base_self="subtree", also=["self"]),
]

# The reason that `auto` gives when it takes group, and what a refused CGTREE_BASE is told.
REASONS = {
    "scope": r"there is no user manager: ",
    "auto": r"cgroup /\S+ is systemd's and not delegated: .*Delegate=yes.*CGTREE_BASE",
    "self": r"cgroup /\S+ is not writable for us",
    "elsewhere": r"processes cannot be put into \S+ from /\S+: /\S+/cgroup\.procs is not writable for us",
}


def kind_of(cgroup, own):
    return next((kind for kind, (_, pattern) in KINDS.items()
                 if re.fullmatch(pattern.replace("OWN", re.escape(own)), cgroup)), None)


def of(name):
    return next(place for place in PLACES if place.name == name)


def expected(entry, version):
    return entry[version] if isinstance(entry, dict) else entry


def is_there(place, cgroup):
    return re.fullmatch(place.cgroup, cgroup) is not None


def columns(place, version):
    """The placements in which the matrix is run there, and how each is asked for: (name, kind, options, CGTREE_BASE)."""
    how = {"group": ("group", ["--backend=group"], None), "scope": ("scope", ["--backend=scope"], None),
           "self": ("subtree", ["--backend=subtree"], "self")}
    return [("auto", expected(place.auto, version), [], None)] + [(name, *how[name]) for name in place.also]
