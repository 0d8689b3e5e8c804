"""Known causes: what each built-in rule knows, and what rules of one's own may do."""
# ruff: noqa: E501  # messages stand as programs print them

import time
from collections.abc import Callable
from pkgutil import get_data

import pytest

from service_record.diagnosis import causes
from service_record.diagnosis.cause_rules import Phrase, Rank, fill_commands
from service_record.diagnosis.causes import Causes, built_in_rules
from service_record.diagnosis.findings import KnownCause, TroubleFacts
from service_record.diagnosis.yaml_files import read_rules
from service_record.history.outcome import Facts
from service_record.record.config_file import ConfigError
from tests.builders import require
from tests.cause_cases import CauseCase, cause_cases
from tests.faults import Faults

BUILT_IN = built_in_rules()
CAUSES = Causes(BUILT_IN)
CASES = list(cause_cases())
SAID = {
    case.rule: case.values["own"].removeprefix("Doing it\n").removesuffix("\nGiving up")
    for case in CASES
    if not case.is_near_miss and "own" in case.values
}


def failed(message: str | None = None, **facts: object) -> TroubleFacts:
    whole = Facts(message=message, **({"exit_code": 1} | facts))  # type: ignore[arg-type]
    return TroubleFacts(
        kinds=frozenset({"failed"}), service="job", stage="pull", invocation_id="1f" * 16, facts=whole
    )


def explained(evidence: TroubleFacts, rules: str | None = None) -> KnownCause | None:
    causes = Causes(read_rules(rules, "own.yaml")) if rules is not None else CAUSES
    return causes.explain(evidence)


def identity(case: CauseCase) -> str:
    return f"{case.rule}-{'miss' if case.is_near_miss else 'hit'}"


def test_rule_matches_its_cases_and_no_near_misses() -> None:
    with Faults() as faults:
        for case in CASES:
            with faults.case(identity(case)):
                cause = case.named_cause(CAUSES)
                name = cause.name if cause is not None else None
                if case.is_near_miss:
                    assert name != case.rule, case.values
                    continue
                assert cause is not None, case.values
                assert name == case.rule, case.values
                assert case.says in {None, cause.says}
                assert "{" not in "".join(cause.commands).replace("{}", "")


def test_built_in_rule_has_case_and_near_miss() -> None:
    names = {rule.name for rule in BUILT_IN}
    for is_near_miss in (False, True):
        assert {case.rule for case in CASES if case.is_near_miss is is_near_miss} == names


def test_built_in_rule_is_well_formed() -> None:
    names = {rule.name for rule in BUILT_IN}
    assert len(names) == len(BUILT_IN)
    with Faults() as faults:
        for rule in BUILT_IN:
            with faults.case(rule.name):
                conditions = (rule.condition, *rule.needs, *rule.unless)
                lines = [pattern for test in rule.list_line_tests() for pattern in test.patterns]
                texts = [one for condition in conditions for each in condition.texts.values() for one in each]
                facts = [one for condition in conditions for test in condition.facts for one in test.patterns]
                for pattern in (*lines, *texts, *facts):
                    assert pattern.compiled.groups >= len(pattern.names)
                for test in rule.list_line_tests():
                    starts = [pattern for pattern in test.patterns if pattern.text.startswith("^")]
                    assert not (test.elsewhere and starts)
                assert rule.over | frozenset().union(*(one.rules for one in conditions)) <= names


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
        ("permission", "the service may not use /srv/x"),
    ],
)
def test_built_in_rule_explains_its_message(name: str, says: str) -> None:
    assert require(explained(failed(SAID[name]))).says == says


@pytest.mark.parametrize(
    ("message", "says"),
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
def test_built_in_rule_quotes_names_from_the_message(message: str, says: str | None) -> None:
    cause = explained(failed(message))
    assert (cause.says if cause is not None else None) == says


def test_built_in_rule_reads_well_without_values() -> None:
    values = {"service": "job", "unit": "job.service"}
    for rule in BUILT_IN:
        texts = [phrase.fill(values) for phrase in (rule.says, rule.explains) if phrase is not None]
        assert texts[0]
        for text in texts:
            assert not set("{}[]|").intersection(text)
            assert text == text.strip().replace("  ", " ").replace(" .", ".").replace(" ,", ",")


def test_unknown_message_has_no_known_cause() -> None:
    assert explained(failed("cp: cannot stat 'x': No such file or directory")) is None
    assert explained(failed(None)) is None


def test_cause_comes_before_symptom_in_one_message() -> None:
    cause = explained(failed("dial tcp 1.2.3.4:6443: connect: connection refused\nno space left on device"))
    assert cause is not None
    assert (cause.name, cause.line) == ("disk-full", "no space left on device")


def test_symptoms_are_tried_last_wherever_they_stand() -> None:
    rules = "- {name: a, says: a, message: x, symptom: true}\n- {name: b, says: b, message: x}\n"
    cause = require(explained(failed("x"), rules))
    assert (cause.name, cause.is_symptom) == ("b", False)


@pytest.mark.parametrize(
    ("word", "meant"), [("false", (False, False)), ("true", (True, False)), ("last", (True, True))]
)
def test_rule_can_be_a_last_symptom(word: str, meant: tuple[bool, bool]) -> None:
    cause = require(explained(failed("x"), f"- {{name: a, says: a, message: x, symptom: {word}}}\n"))
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


def test_own_rule_fills_in_its_groups() -> None:
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
        found="MIRROR a.lab is gone",
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
def test_rule_says_more_if_more_is_known(message: str, says: str, explains: str | None) -> None:
    cause = require(explained(failed(message), TELLING))
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
def test_pasted_command_with_journal_text_is_harmless(host: str, command: str | None) -> None:
    cause = require(explained(failed(f"mirror {host} is gone"), RULE))
    pings = [each for each in cause.commands if each.startswith("ping")]
    assert pings == ([command] if command else [])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- name: a", "own.yaml:1: a rule needs `says`"),
        ("- name: a\n  says: b", "own.yaml:1: a rule needs something to be known by: service, stage"),
        ("- name: a\n  says: b\n  message: '('", "own.yaml:3: message: not a pattern of RE2: missing ): ("),
        (
            "- name: a\n  says: b\n  message: '(?=x)'",
            "own.yaml:3: message: not a pattern of RE2: invalid perl operator",
        ),
        ("- name: a\n  says: b\n  message: '(a{1000}){1000}'", "own.yaml:3: message: not a pattern of RE2: "),
        (
            "- name: a\n  says: b\n  massage: c",
            "own.yaml:3: massage: no such field; did you mean message? a rule has name, says",
        ),
        (
            "- name: a\n  says: b\n  kind: broken",
            "own.yaml:3: kind: no kind 'broken'; kinds are boot-loop, ended-well",
        ),
        ("- name: a\n  says: b\n  exit: one", "own.yaml:3: exit: 'one' is not an exit status"),
        (
            "- name: a\n  says: b\n  exit: 1\n  symptom: maybe",
            "own.yaml:4: symptom: 'maybe' is not valid; use one of true",
        ),
        (
            "- name: a\n  says: b\n  exit: 1\n  next: ls {dir}",
            "own.yaml:4: next: nothing is called {dir} here",
        ),
        (
            "- name: a\n  says: in {dir}\n  exit: 1",
            "own.yaml:2: says: nothing is called {dir} here; there are inv",
        ),
        (
            "- name: a\n  says: b\n  explains: '[at {dir}]'\n  exit: 1",
            "own.yaml:3: explains: nothing is called {dir} here; there are invocation, service, stage, unit",
        ),
        (
            "- name: a\n  message: (?P<x>y)\n  says: no {x}",
            "own.yaml:3: says: {x} may not be known; write [{x}|something], or [what is left out {x}]",
        ),
        (
            "- name: a\n  says: '[{stage}|{stage}]'\n  exit: 1",
            "own.yaml:2: says: {stage} may not be known; write",
        ),
        (
            "- name: a\n  says: b\n  exit: 1\n- name: a\n  says: b\n  exit: 1",
            "own.yaml:4: a rule is called 'a'",
        ),
        ("name: a", "own.yaml:1: not a list; begin each item with `-`"),
        ("- a", "own.yaml:1: a rule has fields"),
        ("- name: {}", "own.yaml:1: a rule needs `says`"),
        ("- says: b\n  name: {}\n  exit: 1", "own.yaml:2: name: not a text, or an empty one"),
        ("- name: [", "own.yaml:2: not YAML: "),
        ("- {name: a}\n- @", "own.yaml:2: not YAML: "),
        *(
            (
                f"- name: a\n  says: b\n  message: c\n  {wrong}",
                f"own.yaml:4: {fault}",
            )
            for wrong, fault in (
                ("symptom: true\n  rank: cause", "symptom: give `rank` or `symptom`, not both"),
                (
                    "rank: reason",
                    "rank: 'reason' is not valid; use one of cause, points to, contributing, symptom",
                ),
                ("within: day", "within: 'day' is not valid; use one of run, boot, any"),
                ("heals: maybe", "heals: 'maybe' is not valid; use one of true, false"),
                (
                    "where: moon",
                    "where: no place 'moon'; places are agent, any, containers, installer, journal, ",
                ),
                ("where: 'unit:'", "where: no place 'unit:'; did you mean unit:NAME? places are "),
                ("times: 21", "times: not a number from 1 to 20"),
                ("times: 0", "times: not a number from 1 to 20"),
                ("times: few", "times: not a number from 1 to 20"),
                ("measure: weight", "measure: no measure 'weight'; measures are slow-probe, slow-pull"),
                (
                    "measure: slow-pull",
                    "measure: each pattern needs (?P<bytes>...) and (?P<took>...), which `slow-pull`",
                ),
                ("role: king", "role: no role 'king'; roles are bootstrap, control-plane, node, live"),
                ("check: weather", "check: no check 'weather'; checks are boots-repeat, certificate-ended, "),
                ("fact: {weather: x}", "fact.weather: no such field; `fact` has address, api-name, "),
                ("needs: [{}]", "needs: a condition of `needs` needs one of: message, where, times, "),
                (
                    "unless: [{says: x}]",
                    "unless.says: no such field; a condition of `unless` has message, where",
                ),
                ("needs: {exit: 1}", "needs: not a list; begin each item with `-`"),
                ("over: ['']", "over: not a text, or an empty one"),
                ("sources: [[]]", "sources: not a text, or an empty one"),
                ("? [name]\n  : b", "?: not a text, or an empty one"),
                (f"next: {'[' * 20}{']' * 20}", "nested too deeply"),
                (f"next: {'[' * 18}{']' * 18}", "next: not a text, or an empty one"),
            )
        ),
        (
            "- name: a\n  says: b\n  where: kernel",
            "own.yaml:3: where: `where`, `times`, `measure` and `same` are about a",
        ),
        (
            "- name: a\n  says: b\n  exit: 1\n  times: 2",
            "own.yaml:4: times: `where`, `times`, `measure` and `same`",
        ),
    ],
)
def test_invalid_rules_file_is_refused_in_one_line(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_rules(text, "own.yaml")
    assert str(raised.value).startswith(fault)
    assert "\n" not in str(raised.value)


FULL = """\
- name: full
  says: '[{port}|it]'
  explains: since [{bytes}|some]
  symptom: LAST
  next: [ls, 'curl {port}']
  sources: [a]
  message: ['(?P<bytes>b)(?P<took>t)']
  where: [kernel, 'unit:job']
  times: 20
  measure: slow-pull
  fact: {cmdline: [x], os: y}
  check: swap-is-on
  role: [node, live]
  rule: [other]
  service: s
  signal: [SIGKILL, TERM]
  exit: [1, 2]
  needs: [{command: 'c (?P<port>d)', systemd: timeout, kind: [failed]}]
  unless: [{stage: x}]
  within: boot
  heals: true
  noise: true
  program: 'moo[nr]'
  over: [other, more]
"""


def test_rule_has_the_fields_of_its_file() -> None:
    full, needed = FULL.replace("  rule: [other]\n", ""), "needs: [{rule: [other], command:"
    (rule,) = read_rules(full.replace("needs: [{command:", needed), "own.yaml")
    condition, (needs,), (unless,) = rule.condition, rule.needs, rule.unless
    lines = require(condition.lines)
    assert (rule.rank, rule.is_last, rule.within) == (Rank.SYMPTOM, True, "boot")
    assert (rule.heals, rule.noise, require(rule.program).text) == (True, True, "moo[nr]")
    assert (rule.next, rule.sources, sorted(rule.over)) == (("ls", "curl {port}"), ("a",), ["more", "other"])
    assert (rule.says.fill({}), require(rule.explains).fill({"bytes": "7"})) == ("it", "since 7")
    assert (sorted(lines.where), lines.times, lines.measure) == (["kernel", "unit:job"], 20, "slow-pull")
    assert [pattern.text for pattern in lines.patterns] == ["(?P<bytes>b)(?P<took>t)"]
    assert [(fact.name, fact.patterns[0].text) for fact in condition.facts] == [("cmdline", "x"), ("os", "y")]
    assert (condition.check, sorted(condition.roles)) == ("swap-is-on", ["live", "node"])
    assert condition.words == {"signal": {"KILL", "TERM"}, "exit": {"1", "2"}}
    assert needs.words == {"systemd": {"timeout"}, "kind": {"failed"}}
    assert sorted(needs.rules) == ["other"]
    assert [list(one.texts) for one in (condition, needs, unless)] == [["service"], ["command"], ["stage"]]
    with pytest.raises(ConfigError, match="rule: no such field; did you mean role\\?"):
        read_rules(FULL, "own.yaml")


def test_long_value_is_shortened_and_not_pasted() -> None:
    phrase = Phrase.parse("at {x}")
    assert phrase.fill({"x": f"{'a' * 50}\n {'b' * 49}"}) == f"at {'a' * 50} {'b' * 49}"
    assert phrase.fill({"x": "a" * 51 + "b" * 50}) == f"at {'a' * 48}...{'b' * 48}"
    values = {"x": "a" * 200, "y": "a" * 201, "z": "-rf", "n": "a\nb", "q": "a b"}
    commands = ["ls {x}", "ls {y}", "ls {z}", "ls {n}", "ls {q}", "ls {none}", "ls [{q}|all]", "ls [{y}|all]"]
    pasted = ["a" * 200, "'a b'", "'a b'", "all"]
    assert list(fill_commands(commands, values)) == [f"ls {value}" for value in pasted]


def test_brackets_choose_where_a_placeholder_is_in_them() -> None:
    phrase = Phrase.parse("[0-9] ${x} {{y}} [a {b} {c}|no b] and [{d}]")
    assert (sorted(phrase.names), sorted(phrase.needs)) == (["b", "c", "d"], [])
    assert phrase.fill({"b": "1"}) == "[0-9] ${x} {{y}} no b and "
    assert phrase.fill({"b": "1", "c": "2", "d": "3"}) == "[0-9] ${x} {{y}} a 1 2 and 3"


def test_empty_rules_file_has_no_rules() -> None:
    assert read_rules("# none yet\n", "own.yaml") == ()


@pytest.mark.parametrize(
    "pattern",
    ["(a*)*b", "(a|aa)+$", "(.*a){20}", "(?:a?){30}a{30}"],
    ids=["star", "alternatives", "dots", "maybe"],
)
def test_any_pattern_takes_linear_time(pattern: str) -> None:
    causes = Causes(read_rules(f"- name: a\n  says: b\n  message: '{pattern}'", "own.yaml"))
    started = time.process_time()
    causes.explain(failed("a" * 1_000_000 + "c"))
    assert time.process_time() - started < 1


def test_message_of_any_characters_is_searched() -> None:
    assert require(explained(failed("\udcff é no space left on device \x00"))).name == "disk-full"


@pytest.mark.parametrize(
    ("message", "command"),
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
def test_next_command_is_about_the_trouble(message: str, command: str) -> None:
    cause = require(explained(failed(message)))
    program = command.partition(" ")[0]
    assert next(one for one in cause.commands if one.startswith(program)) == command


def test_common_container_words_only_point_to_cause() -> None:
    cause = require(explained(failed("EFI variables are not supported on this system.")))
    assert (cause.name, cause.is_cause) == ("booted-without-uefi", False)


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-9], lambda text: text.replace(b'"sums":{"', b'"sums":{"x'), lambda _: None]
)
def test_parsed_rules_are_used_only_if_up_to_date(
    monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes | None]
) -> None:
    whole = causes.parse_rules()
    marked = whole.replace(b'"name":"disk-full"', b'"name":"moon-full"')
    assert marked != whole
    names = set[str]()
    for kept, is_used in ((damage(marked), False), (marked, True)):

        def read_or_fail(package: str, name: str, kept: bytes | None = kept) -> bytes | None:
            if name == causes.PARSED and kept is None:
                raise FileNotFoundError(name)
            return kept if name == causes.PARSED else get_data(package, name)

        monkeypatch.setattr(causes, "get_data", read_or_fail)
        names = {rule.name for rule in causes.built_in_rules.__wrapped__()}
        assert ("moon-full" in names) == is_used
    assert len(names) == len(BUILT_IN)


def test_rule_with_a_message_names_its_source() -> None:
    unnamed = [rule.name for rule in BUILT_IN if rule.condition.lines is not None and not rule.sources]
    assert not unnamed
