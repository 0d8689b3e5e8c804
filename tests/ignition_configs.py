"""Ignition configs like those of other tools, and damaged ones with the expected messages."""

import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

Config = dict[str, Any]

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIexample core"
GZIPPED = base64.b64encode(gzip.compress(b"hello\n", mtime=0)).decode()


def discovery(version: str = "3.1.0") -> Config:
    """Return an installer's config that uses every kind of field of version 3.1.0."""
    return {
        "ignition": {
            "version": version,
            "config": {"merge": [{"source": "https://api-int.example.com:22623/config/worker"}]},
            "security": {"tls": {"certificateAuthorities": [{"source": "data:,certificate"}]}},
            "timeouts": {"httpResponseHeaders": 20, "httpTotal": 600},
            "proxy": {"httpsProxy": "http://proxy.example.com:3128", "noProxy": ["example.com"]},
        },
        "passwd": {
            "users": [{"name": "core", "groups": ["sudo"], "passwordHash": "!", "sshAuthorizedKeys": [KEY]}],
            "groups": [{"name": "operators", "gid": 1234}],
        },
        "storage": {
            "disks": [
                {
                    "device": "/dev/vda",
                    "partitions": [{"number": 1, "label": "var", "startMiB": 64, "sizeMiB": 512}],
                }
            ],
            "raid": [{"name": "md0", "level": "raid1", "devices": ["/dev/vdb", "/dev/vdc"]}],
            "filesystems": [{"device": "/dev/md0", "format": "xfs", "path": "/var/data", "label": "data"}],
            "files": [
                {
                    "path": "/etc/motd",
                    "overwrite": True,
                    "mode": 420,
                    "user": {"name": "root"},
                    "contents": {"source": "data:,Do%20not%20touch"},
                },
                {
                    "path": "/etc/hello",
                    "mode": 384,
                    "contents": {"source": f"data:;base64,{GZIPPED}", "compression": "gzip"},
                },
                {"path": "/etc/hosts", "append": [{"source": "data:,192.0.2.1%20api%0A"}]},
            ],
            "directories": [{"path": "/opt/agent", "mode": 493}],
            "links": [{"path": "/etc/localtime", "target": "/usr/share/zoneinfo/UTC", "overwrite": True}],
        },
        "systemd": {
            "units": [
                {
                    "name": "agent.service",
                    "enabled": True,
                    "contents": "[Service]\nExecStart=/usr/local/bin/agent --url a \\\n  --id b\n"
                    "[Install]\nWantedBy=multi-user.target\n",
                },
                {
                    "name": "sshd.service",
                    "dropins": [{"name": "10-later.conf", "contents": "[Unit]\nAfter=agent.service\n"}],
                },
            ]
        },
    }


DISCOVERY_SERVICES = ("agent", "selinux", "pre-network-manager-config")
"""The services in the assisted-service's discovery image for a single node with a static address."""


def make_discovery_image_config() -> Config:
    """Return the config of a discovery image, as in the document about the bootstrap of a single node.

    Upstream writes one mode as decimal 755, which Ignition reads as octal 1363.
    """
    files = {
        "/usr/local/bin/agent-fix-bz1964591": (755, "#!/usr/bin/sh\n"),
        "/etc/motd": (420, "This is a host being installed by the OpenShift Assisted Installer.\n"),
        "/etc/NetworkManager/conf.d/01-ipv6.conf": (420, "[connection]\nipv6.dhcp-iaid=mac\n"),
        "/root/.docker/config.json": (420, '{"auths":{"cloud.openshift.com":{"auth":"=="}}}'),
        "/root/assisted.te": (420, "module assisted 1.0;\n"),
        "/usr/local/bin/pre-network-manager-config.sh": (493, "#!/bin/bash\n"),
        "/etc/assisted/network/host0/mac_interface.ini": (384, "3c:ec:ef:1c:f1:12=eno1"),
    }
    return {
        "ignition": {"version": "3.1.0"},
        "passwd": {
            "users": [{"groups": ["sudo"], "name": "core", "passwordHash": "!", "sshAuthorizedKeys": [KEY]}]
        },
        "systemd": {
            "units": [
                {
                    "name": f"{service}.service",
                    "enabled": True,
                    "contents": f"[Service]\nExecStart=/usr/local/bin/{service}\n\n"
                    "[Install]\nWantedBy=multi-user.target",
                }
                for service in DISCOVERY_SERVICES
            ]
        },
        "storage": {
            "files": [
                {
                    "overwrite": True,
                    "path": path,
                    "mode": mode,
                    "user": {"name": "root"},
                    "contents": {"source": f"data:;base64,{base64.b64encode(text.encode()).decode()}"},
                }
                for path, (mode, text) in files.items()
            ]
        },
    }


def set_value(path: str, value: Any) -> Callable[[Config], None]:
    """Return a function that sets the value at a path such as `storage.files.0.mode`."""

    def damage(config: Config) -> None:
        place: Any = config
        *names, last = path.split(".")
        for name in names:
            place = place[int(name)] if isinstance(place, list) else place[name]
        if isinstance(place, list) and int(last) == len(place):
            place.append(value)
        else:
            place[int(last) if isinstance(place, list) else last] = value

    return damage


def remove_value(path: str) -> Callable[[Config], None]:
    """Return a function that removes the value at a path."""

    def damage(config: Config) -> None:
        place: Any = config
        *names, last = path.split(".")
        for name in names:
            place = place[int(name)] if isinstance(place, list) else place[name]
        del place[int(last) if isinstance(place, list) else last]

    return damage


def damage_config(damage: Callable[[Config], None]) -> bytes:
    config = discovery()
    damage(config)
    return json.dumps(config).encode()


WHOLE = json.dumps(discovery())
FILE = "storage.files.0"

DAMAGES: dict[str, tuple[bytes, str]] = {
    # name: the damaged config, and a part of the message about it
    "nothing": (b"", "empty"),
    "blank": (b" \n\t", "empty"),
    "cut off": (WHOLE[:-40].encode(), "not valid JSON"),
    "a comma too many": (WHOLE.replace("}]", "},]", 1).encode(), "not valid JSON"),
    "bytes that are no text": (WHOLE.encode().replace(b"motd", b"m\xfftd"), "no UTF-8"),
    "a byte order mark": (b"\xef\xbb\xbf" + WHOLE.encode(), "byte order mark"),
    "butane": (b"variant: fcos\nversion: 1.5.0\n", "butane FILE"),
    "a machine config": (b"apiVersion: v1\nkind: MachineConfig\n", "spec.config"),
    "a list": (b"[]", "not an object"),
    "a number": (b"3.4", "not an object"),
    "not a number": (WHOLE.replace("420", "NaN").encode(), "NaN"),
    "nested without end": (b'{"a":' * 100_000, "nested"),
    "a field given twice": (WHOLE.replace('"mode": 420', '"mode": 420, "mode": 420').encode(), "twice"),
    "half a character": (WHOLE.replace("Do%20not", "\\ud800").encode(), "half a character"),
    "no ignition": (damage_config(remove_value("ignition")), "ignition: is missing"),
    "no version": (damage_config(remove_value("ignition.version")), "no version"),
    "a version that is none": (damage_config(set_value("ignition.version", "three")), "is not a version"),
    "a version as a number": (damage_config(set_value("ignition.version", 3.1)), "no version"),
    "version 2": (damage_config(set_value("ignition.version", "2.2.0")), "another specification"),
    "a version to come": (damage_config(set_value("ignition.version", "3.9.0")), "not known"),
    "an experimental version": (
        damage_config(set_value("ignition.version", "3.5.0-experimental")),
        "not a stable version",
    ),
    "a field of a later version": (
        damage_config(set_value("kernelArguments", {"shouldExist": ["a"]})),
        "from 3.3.0 on",
    ),
    "a field in other letters": (damage_config(set_value(f"{FILE}.Mode", 420)), "taken for mode"),
    "a mode as text": (damage_config(set_value(f"{FILE}.mode", "0644")), "files[0].mode: expected `int"),
    "files that are no list": (
        damage_config(set_value("storage.files", {})),
        "storage.files: expected `array",
    ),
    "a file that is no object": (damage_config(set_value(FILE, "/etc/motd")), "files[0]: expected `object"),
    "a path that is missing": (damage_config(remove_value(f"{FILE}.path")), "missing required field `path`"),
    "a path that is relative": (damage_config(set_value(f"{FILE}.path", "etc/motd")), "relative"),
    "a path with dots": (damage_config(set_value(f"{FILE}.path", "/etc/../motd")), "not simple"),
    "a path given twice": (damage_config(set_value(f"{FILE}.path", "/etc/hello")), "given before"),
    "a file where a directory is": (damage_config(set_value(f"{FILE}.path", "/opt/agent")), "given before"),
    "a file below a file": (damage_config(set_value(f"{FILE}.path", "/etc/hello/there")), "below a file"),
    "a file below a link": (damage_config(set_value(f"{FILE}.path", "/etc/localtime/there")), "below a link"),
    "a file where a unit is": (
        damage_config(set_value(f"{FILE}.path", "/etc/systemd/system/agent.service")),
        "written by systemd.units[0]",
    ),
}
