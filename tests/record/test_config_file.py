"""Read configuration files. An error is one line with the file, the line, the key and what is allowed."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from service_record.collector.domain.definitions import parse
from service_record.collector.domain.destinations import parse_destinations
from service_record.diagnosis.yaml_files import read_budgets, read_rules
from service_record.record.config_file import ConfigError, Value, parse_toml, parse_yaml
from service_record.reporter.paths import Places
from service_record.reporter.settings import read_settings


def read_reporter_settings(text: str, path: str) -> None:
    """Raise the first fault of the boot reporter's settings, which it collects in a list."""
    places = Places(Path(path).parent)
    places.settings_file.parent.mkdir(parents=True)
    places.settings_file.write_text(text)
    fault = read_settings(places, {}).faults[0]
    raise ValueError(fault.replace(str(places.settings_file), path))


@pytest.mark.parametrize(
    ("read", "text", "fault"),
    [
        (read_budgets, "stage: 5m\nservises: {}\n", "2: servises: no such field; did you mean services? "),
        (read_rules, "- name: a\n  say: b\n", "2: say: no such field; did you mean says? "),
        (parse, "[[step]]\nlable = 'a'\n", "2: step.lable: no such field; did you mean label? "),
        (
            parse_destinations,
            "[[destination]]\n\nverdict = []\n",
            "3: destination.verdict: no such field; did you mean verdicts? ",
        ),
        (
            read_reporter_settings,
            "[proxies]\nhtttp = 'x'\n",
            "2: proxies.htttp: no such setting; did you mean proxies.http?",
        ),
    ],
)
def test_every_file_gets_place_key_and_nearest_name(
    tmp_path: Path, read: Callable[[str, str], object], text: str, fault: str
) -> None:
    path = str(tmp_path / "file")
    with pytest.raises(ValueError, match="no such") as raised:
        read(text, path)
    assert str(raised.value).startswith(f"{path}:{fault}")
    assert "\n" not in str(raised.value)


def value_at(value: Value, *key: str | int) -> Value:
    for part in key:
        value = value.items()[part] if isinstance(part, int) else value.fields("it")[part]
    return value


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("a = 1\n\nb = 2", ("b",), 3),
        ("[t]\na = 1\n[u]\na = 2", ("u", "a"), 4),
        ("[[t]]\na = 1\n[[t]]\n# a = 0\na = 2", ("t", 1, "a"), 5),
        ("[[t]]\n[t.u]\na = 1\n[[t]]\n[t.u]\na = 2", ("t", 1, "u", "a"), 6),
        ("[[t]]\n[[t.u]]\na = 1\n[[t.u]]\na = 2", ("t", 0, "u", 1, "a"), 5),
        ('text = """\na = 0\n[t]\n"""\n[t]\na = 1', ("t", "a"), 6),
        ('list = [\n "a = 1",\n # c\n]\na = 2', ("a",), 5),
        ("t.u.a = 1\nt.u.b = 2", ("t", "u", "b"), 2),
        ("\n't t'.\"a=\" = 1", ("t t", "a="), 2),
        ("\nt = {a = {b = 1}}", ("t", "a", "b"), 2),
        ("a = 1\r\n\r\nb = 2\r\n", ("b",), 3),
        ("# \u2028 \x85\na = 1", ("a",), 2),
        ("[t]\n[t.u]\na = 1", ("t", "u"), 2),
    ],
)
def test_line_of_a_key_in_toml(text: str, key: tuple[str | int, ...], line: int) -> None:
    assert value_at(parse_toml(text, "f"), *key).line == line


def test_line_is_found_in_linear_time() -> None:
    before = time.process_time()
    for text in (
        "".join(f"[[step]]\nlabel = 'a{number}'\n" for number in range(1000)),
        "a = [\n" + '"b = 1",\n' * 4_000 + "]\n",
        "a = '''\n" + "b = 1\n" * 4_000 + "'''\n",
    ):
        value = parse_toml(f"{text}[end]\n", "f")
        assert value_at(value, "end").line > 0
    assert time.process_time() - before < 10


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a = 1\nb = ", "f:2: not TOML: Invalid value"),
        ("a = [\n1,\n", "f:2: not TOML: "),
        ("a = 1\na = 2\n", "f:2: not TOML: Cannot overwrite a value"),
        ("a = " + "[" * 5000, "f:1: nested too deeply"),
        ("a = " + "1" * 5000, "f:1: not TOML: Exceeds the limit"),
    ],
)
def test_invalid_toml_is_one_line(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_toml(text, "f")
    assert str(raised.value).startswith(fault)


def test_hostile_key_stays_in_one_line() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_toml('"a\\n\\u001b[31m" = 1', "f").fields("a file", ("b",))
    assert str(raised.value) == "f:1: a\\x0a\\x1b[31m: no such field; a file has b"


def test_place_of_a_value_in_yaml() -> None:
    value = parse_yaml("a:\n  - b: 1\n    c: [x]\n", "f")
    assert value is not None
    with pytest.raises(ConfigError, match=r"f:3: a\.c: not a text, or an empty one"):
        value_at(value, "a", 0, "c").text()
