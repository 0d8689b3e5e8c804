"""Signatures of failures: what is left of a message when what differs each time is taken out."""

import time

import pytest

from service_record.diagnosis.evidence.error_lines import is_labelled, telling_line
from service_record.diagnosis.failures import signature


@pytest.mark.parametrize(
    ("message", "again"),
    [
        pytest.param("exit status 1 after 3 tries", "exit status 2 after 14 tries", id="numbers"),
        pytest.param("dial tcp 10.0.0.5:6443: refused", "dial tcp 192.168.122.7:6443: refused", id="ipv4"),
        pytest.param("dial tcp [fd00::5]:6443: no", "dial tcp [fe80:1:2::9]:22623: no", id="ipv6"),
        pytest.param("dial tcp [::1]:6443: no", "dial tcp [fd00::1]:6443: no", id="ipv6-loopback"),
        pytest.param("link 52:54:00:aa:bb:01 down", "link 52:54:00:12:34:56 down", id="mac"),
        pytest.param("container 3f0c8d2e5b7a failed", "container 0bad5eed0042 failed", id="id"),
        pytest.param(
            "pod 5b0e3a51-7f05-4b7e-9d6c-3f1d2b6a0c11 gone",
            "pod 0f0e3a51-1f05-4b7e-9d6c-3f1d2b6a0cff gone",
            id="uuid",
        ),
        pytest.param(
            "2026-11-21T01:05:10Z E1121 01:05:10.123456 failed",
            "2026-11-21T01:06:11.5+01:00 E1121 23:59:59.1 failed",
            id="times",
        ),
        pytest.param("timed out after 59s", "timed out after 1m3.5s", id="durations"),
        pytest.param("/dev/sdb is in use", "/dev/sdd is in use", id="disks"),
        pytest.param("wipefs: nvme0n1p3: busy", "wipefs: nvme1n1p2: busy", id="nvme"),
        pytest.param("lost worker1, 3 left", "lost worker12, 2 left", id="numbers-behind-a-name"),
        pytest.param("Nov 21 01:05:10 host x", "Dec  1 11:05:19 host x", id="syslog-time"),
    ],
)
def test_variable_parts_are_not_in_the_signature(message: str, again: str) -> None:
    assert signature(message) == signature(again)
    assert message != signature(message)


@pytest.mark.parametrize(
    ("message", "other"),
    [
        ("pulling quay.io/a: manifest unknown", "pulling quay.io/a: unauthorized"),
        ("deadbeef is a word", "facade is a word"),
        ("cannot open a.conf", "cannot open b.conf"),
        ("no python2-libs here", "no python3-libs here"),
        ("the sda of the text", "the adb of the text"),
    ],
)
def test_words_stay_in_the_signature(message: str, other: str) -> None:
    assert signature(message) != signature(other)


@pytest.mark.parametrize("piece", ["a1", "1", "1.", "1:", "ab:", "1m", "2026-", "0x", "::", "1-", "é1"])
def test_hostile_messages_take_linear_time(piece: str) -> None:
    message = piece * 1_000_000
    started = time.process_time()
    signature(message)
    signature(piece * 1000 + "g")
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("Rendering\nError: no such image\nGathering logs", "Error: no such image"),
        ("one\n two \n\n", "two"),
        ("a: permission denied\nb: unauthorized", "b: unauthorized"),
        ("Error: no such image\nRetrying in 5s, the pull failed", "Error: no such image"),
        ("Error: no such host\nLog bundle written to /var/failed.tar.gz", "Error: no such host"),
        ("curl: (7) Failed to connect\nRetrying after a timeout of 30s", "curl: (7) Failed to connect"),
        ("level=error msg=x\nunknown flag\nWaiting, a timeout", "level=error msg=x"),
        ("Retrying after an error", "Retrying after an error"),
        ("rendering\nRetrying", "rendering"),
        ("E1121 01:05:10.1 etcd.go:1] lost\nexit status 1, failed", "E1121 01:05:10.1 etcd.go:1] lost"),
        (
            (
                "sshd: no hostkeys available -- exiting.\n"  # openssh: sshd.c, systemd: unit.c
                "sshd.service: Main process exited, code=exited, status=1/FAILURE\n"
                "sshd.service: Failed with result 'exit-code'.\nFailed to start OpenSSH server daemon."
            ),
            "sshd: no hostkeys available -- exiting.",
        ),
        ("a.service: Failed with result 'exit-code'.", "a.service: Failed with result 'exit-code'."),
        ("Failed to start listener: address in use\nlost", "Failed to start listener: address in use"),
        (
            (
                "finish: cmd-install/stage-partitioning: FAIL: running curtin command\n"
                "Unexpected error while running command.\nCommand: ['wipefs', '-a']\n"  # curtin: util.py
                "Exit code: 1\nReason: -\nStdout: ''\nStderr: wipefs: /dev/sda1: probing initialization"
            ),
            "Stderr: wipefs: /dev/sda1: probing initialization",
        ),
        ("mount: wrong fs type, error\nStderr: ''", "mount: wrong fs type, error"),
        (
            (
                "dpkg: error processing package grub-pc (--configure):\n"  # dpkg: errors.c, apt: dpkgpm.cc
                " installed grub-pc package post-install script subprocess returned error exit status 1\n"
                "Errors were encountered while processing:\n grub-pc\n"
                "E: Sub-process /usr/bin/dpkg returned an error code (1)"
            ),
            "dpkg: error processing package grub-pc (--configure):",
        ),
        (
            (
                "E: Failed to fetch http://a.lab/x  404  Not Found\n"
                "E: Some index files failed to download. They have been ignored, or old ones used instead."
            ),
            "E: Failed to fetch http://a.lab/x  404  Not Found",
        ),
        (
            (
                "Payloads:ERROR:Thread Install has failed: Traceback (most recent call last):\n"
                'Payloads:  File "/usr/lib64/python3.12/threads.py", line 280, in run\n'
                "Payloads:    raise TransactionError(str(e)) from None\n"
                "Payloads:anaconda.errors.TransactionError: DNF done\nPayloads:INFO:Thread Failed: Install"
            ),
            "Payloads:anaconda.errors.TransactionError: DNF done",
        ),
        ("Error: \n Problem: the 3 requests conflict\n", "Problem: the 3 requests conflict"),  # dnf
        ("dnf: Error:\nno packages\nerror: x\ncleaning", "error: x"),
        ("write error: Broken pipe (32)\n@ERROR: auth failed on module b", "@ERROR: auth failed on module b"),
        ("cannot chdir\nstopping slurmctld: [FAILED]", "cannot chdir"),
        ("ovs: cannot add br-ex\nconfigure-ovs exited with error: 4", "ovs: cannot add br-ex"),
        ("adding br-ex\nconfigure-ovs exited with error: 4", "configure-ovs exited with error: 4"),
        ("", None),
        (None, None),
    ],
)
def test_line_with_an_error_is_telling(message: str | None, line: str | None) -> None:
    assert telling_line(message) == line


def test_both_ends_of_a_long_line_are_read() -> None:
    much = "x " * 3000
    for line, is_error in (
        (f"{much}Error: y", True),
        (f"Error: {much}", True),
        (f"{much}Error: {much}", False),
    ):
        assert is_labelled(line) is is_error
    assert is_labelled(f"{'x ' * 1000}Error: y {'x ' * 1000}")


@pytest.mark.parametrize(
    "message", ["grub2-install: error: x", "k8s says no", "the ext4-fs driver", "no sdk, hdd or sdn here"]
)
def test_numbers_and_letters_within_a_name_stay(message: str) -> None:
    assert signature(message) == message


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "Executable /bin/env missing, skipping: No such file\nmdadm: No mail address - not monitoring.",
            "mdadm: No mail address - not monitoring.",
        ),
        (
            "failed with [1]\nUnrecognized VM option 'X'\nError: Could not create the Java Virtual Machine.",
            "Unrecognized VM option 'X'",
        ),
        (
            "libgcc_s.so.1 must be installed for pthread_cancel to work\nstopped",
            "libgcc_s.so.1 must be installed for pthread_cancel to work",
        ),
    ],
    ids=["ignored error", "launcher", "requirement"],
)
def test_line_with_the_reason_is_telling(message: str, line: str) -> None:
    assert telling_line(message) == line
