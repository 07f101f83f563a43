"""What `cgtree doctor` says in one place of a guest agrees with what happens there."""

import json
import re

import places
from cell import expect


def agrees(scene):
    running = scene.start("doctor", "--json")
    code = running.wait(30)
    weaker = scene.auto == "group"
    expect(code == int(weaker) and running.stderr == "", f"status {code}: {running}")
    said = json.loads(running.stdout)
    found = {entry["topic"]: entry for entry in said["findings"]}
    expect(said["guarantee"] == ("group" if weaker else "whole"), f"{said['guarantee']}: {found}")
    placement = found["placement"]
    expect(placement["text"].startswith(places.KINDS[scene.auto][0]), f"{placement}")
    expect(scene.own in found["own_cgroup"]["text"], f"{found['own_cgroup']}")
    expect(scene.place.records in found["records"]["text"], f"{found['records']}")
    managers = ["system_manager"] + (["user_manager"] if scene.place.uid == places.TESTER else [])
    for topic in managers:
        expect(re.match(r"systemd \d+", found[topic]["text"]), f"{found[topic]}")
    if weaker and scene.own.endswith(".service"):
        unit = scene.own.rpartition("/")[2]
        user = "--user " if scene.place.uid == places.TESTER else ""
        expect(placement["advice"] == f"systemctl {user}edit {unit}\n[Service]\nDelegate=yes", f"{placement}")
    expect(scene.homes() == [], f"left: {scene.homes()}")


def tests(place):
    return [(f"{place.name}/doctor/agrees with what happens", agrees)]
