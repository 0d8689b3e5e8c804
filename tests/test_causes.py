"""Known causes: what each built-in rule knows, and what rules of one's own may do."""
# ruff: noqa: E501  # messages stand as programs print them

import time
from importlib import resources

import pytest

from service_record.diagnosis.causes import CauseRule, Causes, FileError, read_rules
from service_record.diagnosis.trouble_facts import KnownCause, TroubleFacts
from service_record.history.facts import Facts

TEXT = resources.files("service_record.diagnosis").joinpath("causes.yaml").read_text()
BUILT_IN = read_rules(TEXT, "causes.yaml")

SAID = {
    "clock-behind": "x509: certificate has expired or is not yet valid: current time 2020-01-01T00:00:07Z is before"
    " 2026-11-20T10:00:00Z",
    "clock-not-synchronised": "506 Cannot talk to daemon",
    "certificate-expired": "Unable to connect to the server: x509: certificate has expired or is not yet valid: current"
    " time 2026-11-21T01:05:10Z is after 2026-11-20T10:00:00Z",
    "certificate-unknown-authority": 'Get "https://mirror.lab:5000/v2/": x509: certificate signed by unknown authority',
    "certificate-wrong-name": "tls: failed to verify certificate: x509: certificate is valid for a.lab, not b.lab",
    "no-tls": "http: server gave HTTP response to HTTPS client",
    "proxy-authentication": "curl: (56) Received HTTP code 407 from proxy after CONNECT",
    "proxy-unreachable": "proxyconnect tcp: dial tcp 10.0.0.9:3128: connect: connection refused",
    "dns-unreachable": "dial tcp: lookup quay.io on 10.0.0.1:53: read udp 10.0.0.5:4711->10.0.0.1:53: i/o timeout",
    "dns-no-such-name": "dial tcp: lookup api-int.lab.example.com on 10.0.0.1:53: no such host",
    "dns-broken": "dial tcp: lookup quay.io on 10.0.0.1:53: server misbehaving",
    "inotify-exhausted": "Failed to add inotify watch: no space left on device",
    "disk-full": "cp: error writing '/var/lib/x': No space left on device",
    "read-only": "mkdir: cannot create directory '/opt/x': Read-only file system",
    "disk-error": "blk_update_request: I/O error, dev sda, sector 2048",
    "disk-busy": "Error: checking for exclusive access to /dev/sda",
    "out-of-memory": "Out of memory: Killed process 812 (etcd)",
    "too-many-files": "accept4: too many open files",
    "image-signature": "Source image rejected: Running image docker://x is rejected by policy.",
    "image-architecture": "exec /bin/x: exec format error",
    "image-rate-limit": "toomanyrequests: You have reached your pull rate limit",
    "image-unauthorised": "Error: initializing source docker://quay.io/x/y:1: reading manifest 1 in quay.io/x/y: "
    "unauthorized: access to the requested resource is not authorized",
    "image-not-found": "Error: initializing source docker://quay.io/x:1: reading manifest 1 in quay.io/x: manifest unknown",
    "image-damaged": "Error: writing blob: Digest did not match, expected sha256:00, got sha256:11",
    "registry-timeout": 'pinging container registry quay.io: Get "https://quay.io/v2/": dial tcp 1.2.3.4:443: i/o timeout',
    "registry-refused": "pinging container registry mirror.lab:5000: Get: dial tcp 10.0.0.7:5000: connect: connection"
    " refused",
    "registry-failing": "Error: reading manifest 1 in quay.io/x: received unexpected HTTP status: 502 Bad Gateway",
    "download-broken": "Error: copying system image from manifest list: reading blob sha256:00: unexpected EOF",
    "download-refused": "curl: (22) The requested URL returned error: 403",
    "download-missing": "curl: (22) The requested URL returned error: 404",
    "no-route": "dial tcp 10.0.0.5:443: connect: no route to host",
    "no-address": "dhcp4 (ens3): request timed out",
    "address-conflict": "ens3: IPv6 duplicate address detected",
    "hostname-not-set": "waiting for non-localhost hostname to be assigned",
    "port-in-use": "listen tcp :6443: bind: address already in use",
    "wrong-boot-order": "Expected the host to boot from disk, but it booted the installation image - please reboot",
    "ignition-invalid": "ignition[512]: failed to parse config: unsupported config version",
    "ignition-unreachable": "ignition[512]: GET https://api-int.lab:22623/config/master: attempt #7",
    "ostree-busy": "error: Transaction in progress: upgrade",
    "runtime-unreachable": "dial unix /var/run/crio/crio.sock: connect: connection refused",
    "kubelet-config": "failed to load kubelet config file, path: /etc/kubernetes/kubelet.conf",
    "network-plugin": "NetworkReady=false reason:NetworkPluginNotReady",
    "etcd-full": "etcdserver: mvcc: database space exceeded",
    "etcd-slow": "slow fdatasync",
    "etcd-unhealthy": "etcdserver: no leader",
    "forbidden": 'nodes is forbidden: User "system:anonymous" cannot list resource "nodes"',
    "selinux": 'avc:  denied  { read } for pid=1 comm="x"',
    "command-missing": "/usr/local/bin/job.sh: line 3: jq: command not found",
    "script-error": "job.sh: line 3: IMAGE: unbound variable",
    "kernel-panic": "Kernel panic - not syncing: VFS",
    "api-refused": "dial tcp [::1]:6443: connect: connection refused",
    "api-timeout": "dial tcp 10.0.0.5:6443: i/o timeout",
    "pods-not-ready": "Error: error while checking pod status: timed out waiting for the condition",
    "not-served-yet": 'no matches for kind "MachineConfig" in version "machineconfiguration.openshift.io/v1"',
    "connection-refused": "dial tcp 10.0.0.5:8080: connect: connection refused",
    "connection-lost": "read tcp 10.0.0.5:1->10.0.0.6:2: read: connection reset by peer",
    "permission": "touch: cannot touch '/etc/x': Permission denied",
    "timeout": "context deadline exceeded",
}
ENDED = {
    "oom-killed": Facts(service_result="oom-kill", signal="KILL"),
    "program-missing": Facts(exit_code=203),
    "systemd-setup": Facts(exit_code=217),
    "start-limit": Facts(service_result="start-limit-hit"),
    "systemd-timeout": Facts(service_result="timeout", signal="TERM"),
    "watchdog": Facts(service_result="watchdog", signal="ABRT"),
    "not-ready": Facts(service_result="protocol"),
    "crashed": Facts(signal="SEGV"),
    "killed": Facts(signal="KILL"),
    "stopped": Facts(signal="TERM"),
    "own-timeout": Facts(exit_code=124),
}
OTHERWISE = {
    "host-went-down": TroubleFacts(kinds=frozenset({"rebooted"}), service="job", facts=Facts()),
    "vanished": TroubleFacts(kinds=frozenset({"interrupted"}), service="job", facts=Facts()),
    "stopped-or-killed": TroubleFacts(
        kinds=frozenset({"interrupted"}), service="job", facts=Facts(signal="unknown")
    ),
    "stuck-download": TroubleFacts(
        kinds=frozenset({"stuck"}), service="job", stage="pull-release-image", facts=Facts()
    ),
    "stuck-etcd": TroubleFacts(
        kinds=frozenset({"stuck"}), service="job", stage="wait-for-etcd", facts=Facts()
    ),
    "stuck-waiting-for-api": TroubleFacts(
        kinds=frozenset({"stuck"}), service="job", stage="wait-for-api", facts=Facts()
    ),
    "stuck-api": TroubleFacts(
        kinds=frozenset({"stuck"}), service="job", stage="cvo-bootstrap", facts=Facts()
    ),
}


def failed(message: str | None = None, **facts: object) -> TroubleFacts:
    whole = Facts(message=message, **({"exit_code": 1} | facts))  # type: ignore[arg-type]
    return TroubleFacts(
        kinds=frozenset({"failed"}), service="job", stage="pull", invocation_id="1f" * 16, facts=whole
    )


def explained(evidence: TroubleFacts, rules: str | None = None) -> KnownCause | None:
    own = read_rules(rules, "own.yaml") if rules is not None else BUILT_IN
    return Causes(own).explain(evidence)


EXAMPLES = {
    **{name: failed(f"Doing it\n{said}\nGiving up") for name, said in SAID.items()},
    **{
        name: TroubleFacts(kinds=frozenset({"failed"}), service="job", facts=facts)
        for name, facts in ENDED.items()
    },
    **OTHERWISE,
}


@pytest.mark.parametrize("rule", BUILT_IN, ids=lambda rule: rule.name)
def test_each_built_in_rule_knows_its_example_and_says_what_to_do(rule: CauseRule) -> None:
    cause = explained(EXAMPLES[rule.name])
    assert cause is not None
    assert cause.name == rule.name
    assert cause.line == SAID.get(rule.name)
    assert len(cause.says) < 80
    assert "{" not in "".join(cause.commands).replace("{}", "")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "certificate-unknown-authority",
            "this host does not trust who signed the certificate of mirror.lab",
        ),
        ("certificate-wrong-name", "b.lab shows a certificate of another name: a.lab"),
        ("proxy-unreachable", "the proxy 10.0.0.9:3128 cannot be reached, or refuses the connection"),
        ("dns-unreachable", "the name server 10.0.0.1 does not answer"),
        ("dns-no-such-name", "api-int.lab.example.com cannot be resolved"),
        ("dns-broken", "the name server 10.0.0.1 fails to look up quay.io"),
        ("disk-full", "the disk of /var/lib/x is full"),
        ("read-only", "the file system of /opt/x is read-only"),
        ("disk-error", "the disk sda does not read or write"),
        ("disk-busy", "the disk to install to, /dev/sda, is in use"),
        ("out-of-memory", "memory ran out, and etcd was killed"),
        ("image-signature", "the image x is refused because of its signature"),
        ("image-architecture", "/bin/x is for another architecture"),
        ("image-unauthorised", "the registry refuses the credentials for quay.io/x/y:1"),
        ("image-not-found", "the registry has no image quay.io/x:1"),
        ("registry-timeout", "the registry quay.io does not answer in time"),
        ("registry-refused", "nothing listens where the registry mirror.lab:5000 should be"),
        ("no-route", "10.0.0.5:443 cannot be reached"),
        ("no-address", "the host gets no address for ens3"),
        ("port-in-use", "another program has port 6443"),
        (
            "ignition-unreachable",
            "Ignition cannot fetch its config from https://api-int.lab:22623/config/master",
        ),
        ("forbidden", "the API refuses what this service asks for; system:anonymous may not list nodes"),
        ("command-missing", "jq is not installed, or not on PATH"),
        ("script-error", "the script itself is wrong; IMAGE has no value"),
        ("connection-refused", "nothing listens at 10.0.0.5:8080"),
        ("connection-lost", "a connection to 10.0.0.6:2 breaks off"),
        ("permission", "it may not do what it tries with /etc/x"),
    ],
)
def test_a_built_in_rule_says_which_it_is(name: str, says: str) -> None:
    cause = explained(EXAMPLES[name])
    assert cause is not None
    assert cause.says == says


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (
            'Get "https://registry.lab:5000/v2/": x509: certificate has expired or is not yet valid',
            "the certificate of registry.lab:5000 has expired",
        ),
        ("Error: lookup a.lab on [fd00::53]:53: no such host", "a.lab cannot be resolved"),
        ("curl: (6) Could not resolve host: a.lab", "a.lab cannot be resolved"),
        ("getent: no such host", "a name cannot be resolved"),
        (
            "write /var/lib/etcd/wal/0.tmp: no space left on device",
            "the disk of /var/lib/etcd/wal/0.tmp is full",
        ),
        ("tar: write error: No space left on device", "the disk is full"),
        (
            "reading manifest 4.22 in quay.io/x: manifest unknown",
            "the registry has no such image: 4.22 in quay.io/x",
        ),
        ("Error: quay.io/x/y:1: image not known", "the registry has no image quay.io/x/y:1"),
        ("manifest unknown", "the registry has no such image"),
        ("kernel: IPv6: ens3: IPv6 duplicate address detected", "another host has the same address as ens3"),
        ("Failed to connect to a.lab port 443: No route to host", "a.lab port 443 cannot be reached"),
        (
            "Error: copying blob docker://a.lab/x@sha256:ab404c: reading blob sha256:ab404c: unexpected EOF",
            "a download breaks off",
        ),
        ('pinging container registry a.lab:5000: Get "https://a.lab:5000/v2/": EOF', None),
    ],
)
def test_a_built_in_rule_names_what_the_message_names(said: str, says: str | None) -> None:
    cause = explained(failed(said))
    assert (cause.says if cause is not None else None) == says


def test_every_built_in_rule_reads_well_where_nothing_more_is_known() -> None:
    values = {"service": "job", "unit": "job.service"}
    for rule in BUILT_IN:
        texts = [phrase.filled(values) for phrase in (rule.says, rule.explains) if phrase is not None]
        assert texts[0]
        for text in texts:
            assert not set("{}[]|").intersection(text)
            assert text == text.strip().replace("  ", " ").replace(" .", ".").replace(" ,", ",")


def test_what_no_rule_knows_has_no_known_cause() -> None:
    assert explained(failed("cp: cannot stat 'x': No such file or directory")) is None
    assert explained(failed(None)) is None


def test_a_cause_comes_before_a_symptom_in_the_same_message() -> None:
    cause = explained(failed("dial tcp 1.2.3.4:6443: connect: connection refused\nno space left on device"))
    assert cause is not None
    assert (cause.name, cause.line) == ("disk-full", "no space left on device")


def test_symptoms_are_tried_last_wherever_they_stand() -> None:
    rules = "- {name: a, says: a, message: x, symptom: true}\n- {name: b, says: b, message: x}\n"
    cause = explained(failed("x"), rules)
    assert cause is not None
    assert (cause.name, cause.is_symptom) == ("b", False)


@pytest.mark.parametrize(
    ("word", "meant"), [("false", (False, False)), ("true", (True, False)), ("last", (True, True))]
)
def test_a_symptom_may_come_of_other_symptoms_too(word: str, meant: tuple[bool, bool]) -> None:
    cause = explained(failed("x"), f"- {{name: a, says: a, message: x, symptom: {word}}}\n")
    assert cause is not None
    assert (cause.is_symptom, cause.is_last) == meant


RULE = """\
- name: lab-mirror
  says: the mirror of the lab is down
  service: ^job$
  message:
    - 'mirror (?P<host>\\S+) is gone'
    - nothing like it
  exit: [1, 2]
  explains: Ask the lab.
  next:
    - ping -c 3 {host}
    - journalctl --unit {unit} _SYSTEMD_INVOCATION_ID={invocation}
    - podman inspect --format '{{.State}}' ${x} {stage}
"""


def test_a_rule_of_ones_own_fills_in_what_it_found() -> None:
    cause = explained(failed("MIRROR a.lab is gone"), RULE)
    assert cause == KnownCause(
        name="lab-mirror",
        says="the mirror of the lab is down",
        explains="Ask the lab.",
        commands=(
            "ping -c 3 a.lab",
            f"journalctl --unit job.service _SYSTEMD_INVOCATION_ID={'1f' * 16}",
            "podman inspect --format '{{.State}}' ${x} pull",
        ),
        line="MIRROR a.lab is gone",
    )


TELLING = """\
- name: gone
  says: '[{what} of {unit}|something] is gone[ from {where}]; [a|b] {{x}} ${x}'
  explains: '[It was at {where}.]'
  message:
    - '(?P<what>\\S+) is gone(?: from (?P<where>[^\\n]*))?'
    - lost
"""


@pytest.mark.parametrize(
    ("message", "says", "explains"),
    [
        ("x is gone from a", "x of job.service is gone from a", "It was at a."),
        ("x is gone", "x of job.service is gone", None),
        ("x is gone from  ", "x of job.service is gone", None),
        ("lost", "something is gone", None),
        ("x is gone from a\t b\x85c", "x of job.service is gone from a b c", "It was at a b c."),
        (
            "[{where}] is gone from {what}",
            "[{where}] of job.service is gone from {what}",
            "It was at {what}.",
        ),
        ("x" * 99 + "yz is gone", "x" * 48 + "..." + "x" * 46 + "yz of job.service is gone", None),
    ],
    ids=["all", "an optional group", "blanks", "no group", "one line", "texts", "long"],
)
def test_a_rule_says_more_where_more_is_known(message: str, says: str, explains: str | None) -> None:
    cause = explained(failed(message), TELLING)
    assert cause is not None
    assert (cause.says, cause.explains) == (f"{says}; [a|b] {{{{x}}}} ${{x}}", explains)


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(failed("mirror a is gone", exit_code=3), id="exit"),
        pytest.param(failed("mirror is well"), id="message"),
        pytest.param(
            TroubleFacts(kinds=frozenset({"failed"}), service="jobs", facts=failed("mirror a is gone").facts),
            id="service",
        ),
    ],
)
def test_all_conditions_have_to_fit(evidence: TroubleFacts) -> None:
    assert explained(evidence, RULE) is None


@pytest.mark.parametrize(
    ("host", "command"),
    [
        ("$(reboot)", "ping -c 3 '$(reboot)'"),
        ("a;b", "ping -c 3 'a;b'"),
        ("-rf", None),
        ("a\x1b[2J", None),
        ("x" * 201, None),
    ],
)
def test_what_a_journal_says_does_no_harm_when_it_is_pasted(host: str, command: str | None) -> None:
    cause = explained(failed(f"mirror {host} is gone"), RULE)
    assert cause is not None
    pings = [each for each in cause.commands if each.startswith("ping")]
    assert pings == ([command] if command else [])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- name: a", "own.yaml:1: a rule needs `says`"),
        ("- name: a\n  says: b", "own.yaml:1: a rule needs something to be known by: service, stage"),
        ("- name: a\n  says: b\n  message: '('", "own.yaml:3: not a pattern of RE2: missing ): ("),
        (
            "- name: a\n  says: b\n  message: '(?=x)'",
            "own.yaml:3: not a pattern of RE2: invalid perl operator",
        ),
        ("- name: a\n  says: b\n  message: '(a{1000}){1000}'", "own.yaml:3: not a pattern of RE2: "),
        (
            "- name: a\n  says: b\n  massage: c",
            "own.yaml:3: a rule has no field 'massage'; it has name, says",
        ),
        ("- name: a\n  says: b\n  kind: broken", "own.yaml:3: no kind 'broken'; kinds are boot-loop, failed"),
        ("- name: a\n  says: b\n  exit: one", "own.yaml:3: 'one' is no exit status"),
        ("- name: a\n  says: b\n  exit: 1\n  symptom: maybe", "own.yaml:4: `symptom` is true, false or last"),
        ("- name: a\n  says: b\n  exit: 1\n  next: ls {dir}", "own.yaml:4: nothing is called {dir} here"),
        ("- name: a\n  says: in {dir}\n  exit: 1", "own.yaml:2: nothing is called {dir} here; there are inv"),
        (
            "- name: a\n  says: b\n  explains: '[at {dir}]'\n  exit: 1",
            "own.yaml:3: nothing is called {dir} here; there are invocation, service, stage, unit",
        ),
        (
            "- name: a\n  message: (?P<x>y)\n  says: no {x}",
            "own.yaml:3: {x} may not be known; write [{x}|something], or [what is left out {x}]",
        ),
        ("- name: a\n  says: '[{stage}|{stage}]'\n  exit: 1", "own.yaml:2: {stage} may not be known; write"),
        (
            "- name: a\n  says: b\n  exit: 1\n- name: a\n  says: b\n  exit: 1",
            "own.yaml:4: a rule is called 'a'",
        ),
        ("name: a", "own.yaml:1: rules are a list, each beginning with `-`"),
        ("- a", "own.yaml:1: a rule has fields"),
        ("- name: {}", "own.yaml:1: a rule needs `says`"),
        ("- says: b\n  name: {}\n  exit: 1", "own.yaml:2: `name` is a text, and not empty"),
        ("- name: [", "own.yaml:2: not YAML: "),
    ],
)
def test_a_bad_rules_file_is_refused_in_one_line_with_its_place(text: str, fault: str) -> None:
    with pytest.raises(FileError) as raised:
        read_rules(text, "own.yaml")
    assert str(raised.value).startswith(fault)
    assert "\n" not in str(raised.value)


def test_an_empty_rules_file_has_no_rules() -> None:
    assert read_rules("# none yet\n", "own.yaml") == ()


@pytest.mark.parametrize(
    "pattern",
    ["(a*)*b", "(a|aa)+$", "(.*a){20}", "(?:a?){30}a{30}"],
    ids=["star", "alternatives", "dots", "maybe"],
)
def test_a_pattern_takes_linear_time_whatever_it_is(pattern: str) -> None:
    causes = Causes(read_rules(f"- name: a\n  says: b\n  message: '{pattern}'", "own.yaml"))
    started = time.process_time()
    causes.explain(failed("a" * 1_000_000 + "c"))
    assert time.process_time() - started < 1


def test_a_message_of_any_characters_is_looked_at() -> None:
    cause = explained(failed("\udcff é no space left on device \x00"))
    assert cause is not None
    assert cause.name == "disk-full"


@pytest.mark.parametrize(
    ("said", "command"),
    [
        (
            'Get "https://registry.lab:5000/v2/": x509: certificate signed by unknown authority',
            "openssl s_client -showcerts -connect registry.lab:5000 </dev/null",
        ),
        (
            'Get "https://quay.io/v2/": x509: certificate signed by unknown authority',
            "openssl s_client -showcerts -connect quay.io:443 </dev/null",
        ),
        ("write /var/lib/etcd/wal/0.tmp: no space left on device", "df -h /var/lib/etcd/wal"),
        (
            "open /var/lib/containers/storage/overlay/3f0c/diff/usr/lib64/x.so: no space left on device",
            "df -h /var/lib/containers/storage",
        ),
        (
            "Error: adding layer: processing tar file(write /usr/lib64/x.so: no space left on device): exit status 1",
            "df -h / /var /sysroot",
        ),
    ],
)
def test_the_next_command_looks_where_the_trouble_is(said: str, command: str) -> None:
    cause = explained(failed(said))
    assert cause is not None
    program = command.partition(" ")[0]
    assert next(one for one in cause.commands if one.startswith(program)) == command
