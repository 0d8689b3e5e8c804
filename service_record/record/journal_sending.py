"""Send messages with fields to systemd's journal, as `journalctl -x` and scripts need them.

The shell programs send messages of these kinds as well. units/service-record.catalog explains every kind, and
a test compares them. The fields are those of systemd.journal-fields(7), in systemd's native protocol.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from typing import Final

from service_record.record.visible import visible

SOCKET: Final = "/run/systemd/journal/socket"


class MessageKind(Enum):
    """A kind of message: its `MESSAGE_ID`, and its `SERVICE_RECORD_RESULT` if that is always the same."""

    VERDICT = ("5aeb94e9446242c68262500552bf2dd8", "")
    """The result is the kind of failure, as in a verdict: `failed`, `looping`."""
    ROUND = ("22c52c8638d4f2dcd057e85c63694eb8", "")
    TROUBLE = ("6f57ac1b33b64f66874bdb045f90937b", "failed")
    SETTING = ("7aee02b62db0e3415a702fc0442e40f9", "invalid")
    BUNDLE_MADE = ("2bd633a6dc88388ff652f55e8bda0eaa", "made")
    NO_BUNDLE = ("768d93d4ac820e7a4f3a3da1ffbcc752", "failed")
    DELIVERED = ("51805c28b7d36abc1d76484a1da5f5c6", "delivered")
    UNDELIVERED = ("5096cc23334a6ce70d94b3de31c26e6c", "undelivered")
    STOPPED = ("05d86d67f105f7b33efbaf4a858187c5", "stopped")
    COMMAND_FAILED = ("a16973cc3d725261eee7c5b657354bf7", "failed")
    COLLECTOR_FAULT = ("ea24dea0cd3334de3315fe4937a5b9f3", "failed")
    COLLECTOR_PROBLEM = ("c4fd18727e84961f7a59366894a0fc99", "failed")
    COLLECTOR_REFUSED = ("4a9156912343f4eeaa63f9e244035365", "refused")
    COLLECTOR_NOTICE = ("5d5398bab8b0fe0e75468743fa95c440", "")
    ENTRIES_LOST = ("a15117ca27ad49d7a97840b08309a81d", "lost")
    """By shell/service-record-close.sh."""
    BOOTSTRAP_FAILED = ("7ff3d9f6b97f4d6acdcbfcef01dc0f98", "failed")
    """By shell/service-record-cluster-api.sh."""
    INITRAMFS_FAILED = ("552f6935de6c6a1ffde2dd31661a371e", "failed")
    """By shell/initramfs/service-record-initramfs.sh, as the next one."""
    INITRAMFS_REPORT = ("7e8f2a3af1e2f30d4cae356bb60ee28c", "")
    """The result is `delivered` or `undelivered`."""

    @property
    def message_id(self) -> str:
        return self.value[0]

    @property
    def result(self) -> str:
        return self.value[1]


def is_journal(descriptor: int, environ: Mapping[str, str]) -> bool:
    """Return True if what is written to a file descriptor goes to the journal; see systemd.exec(5)."""
    device, _, inode = environ.get("JOURNAL_STREAM", "").partition(":")
    with suppress(OSError):
        status = os.fstat(descriptor)
        return (str(status.st_dev), str(status.st_ino)) == (device, inode)
    return False


def send_message(
    kind: MessageKind,
    text: str,
    priority: int,
    fields: Mapping[str, str] | None = None,
    *,
    unit: str | None = None,
    path: str | None = None,
) -> bool:
    """Send a message to the journal, and return whether journald took it.

    `unit` is the service that sends it: journald does not find it if the process has ended by then.
    `priority` is a level of syslog(3).
    """
    named = {
        "MESSAGE": text,
        "MESSAGE_ID": kind.message_id,
        "PRIORITY": str(priority),
        "SYSLOG_IDENTIFIER": "service-record",
        "SERVICE_RECORD_RESULT": kind.result,
        **(fields or {}),
    }
    lines = [f"{name}={visible(value)}\n" for name, value in named.items() if value]
    # systemd's own name for the subject of a message: `journalctl --unit` reads it in messages of root.
    lines += [f"OBJECT_SYSTEMD_UNIT={unit}\n"] if unit else []
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as client:
            # `visible` leaves no line end, so no value can add a field.
            client.sendto("".join(lines).encode(), path or SOCKET)
    except OSError:  # journald does not answer, or the message is too long for it
        return False
    return True
