"""Draw settings with invalid values: files, environment variables and URLs."""

from typing import Final

from hypothesis import strategies as st

from service_record.reporter.settings import SETTINGS
from tests.fuzz.corpus import draw_from_corpus

_VALUES: Final = [
    *("nan", "inf", "-inf", "1e400", "9" * 400, "9" * 5000, "0x" + "f" * 5000, "-1", "0", "true", "0.1"),
    *('""', '" "', '"\\u0000"', '"\\u001b[2J"', '"\\u202e"', "'''\na\n'''", f'"{"x" * 3000}"', '"é"'),
    *("[]", "[[[1]]]", "{a = 1}", '["/a", 1]', "1979-05-27T07:32:00Z", "07:32:00", "0000-00-00"),
    *('"https://[::1"', '"http://a:99999/"', '"http://a:0"', '"http://\u2100.example"', '"http://\\u0007"'),
    *('"/../x"', '"/a\\u0000"', '["collector+https://x"]', '["collector+https://[/"]', '["/\\ud800"]'),
    *('"1h30m"', '"99999999999999999999999999h"', f'"{"9" * 400}s"', f'"{"9" * 5000}s"', '"-1s"', '"٣s"'),
    *('"99999999999 GiB"', '"never"', '"*"', '["*", "[::]/999", "10.0.0.0/99", "\\u2100"]', "[" * 900),
    *("[" * 400 + "]" * 400, "{a=" * 300 + "1" + "}" * 300, "0b1", "0o7", "+1", "1_0", "é"),
]
_REPORTERS: Final = [
    *SETTINGS,
    "token",
    "assisted_service",
    "proxies",
    "colour",
]
_STEPS: Final = ["label", "name", "priority", "budget", "percentage", "last", "colour"]
_ODD_KEYS: Final = [
    *("a.b", ".".join("a" * 1200), '"a\\nb"', '"\\u001b"', "''", "x" * 3000, "é", "[x]", '"[y]"'),
]


def _toml(names: list[str], head: list[str]) -> st.SearchStrategy[bytes]:
    keys = st.sampled_from(names) | st.sampled_from(_ODD_KEYS)
    nested = st.builds("{}.{}".format, keys, keys)
    lines = st.builds("{} = {}".format, keys | nested, st.sampled_from(_VALUES))
    return st.lists(lines | st.sampled_from(head), max_size=6).map(
        lambda rows: "\n".join(rows).encode(errors="surrogateescape")
    )


REPORTER_FILES = draw_from_corpus(
    "settings", _toml(_REPORTERS, ["[assisted_service]", "[proxies]", "[[proxies]]", "[a.b]", "#"])
)
"""Settings files of the reporter."""

STEP_FILES = draw_from_corpus(
    "steps", _toml(_STEPS, ["[[step]]"] * 4 + ["[step]", "[[steps]]", 'label = "a"'])
)
"""Files with an operator's step definitions."""

_TEXTS = st.sampled_from(
    [
        *("", " ", "\udcff\udcfe", "a\nb", "\x1b[2J", "/", "..", "../../x", "-", "%s", "~", "é" * 2000),
        *("x" * 9000, "array", "lines", "0", "-1", "nan", "inf", "1e999", "9" * 5000, "http://[::1"),
        *("http://\u2100", "http://a b", "http://user:pass\udcff@h:1", "http://\udcff", "*"),
        *("10.0.0.0/99,[::]", "localhost", "01234567-89ab-cdef-0123-456789abcdef", "http://127.0.0.1:1"),
        *("/dev/null", "/proc/self/mem", "Ⅷ"),
    ]
) | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)

_REPORTER_NAMES: Final = [
    *(name for setting in SETTINGS.values() for name in setting.variables),
    *("PULL_SECRET_TOKEN", "CREDENTIALS_DIRECTORY", "INVOCATION_ID", "JOURNAL_STREAM"),
]
REPORTER_VARIABLES = st.dictionaries(st.sampled_from(_REPORTER_NAMES), _TEXTS, max_size=4)
"""Environment variables that the reporter reads."""

COLLECTOR_URLS = (
    st.sampled_from(
        [
            *("", "collector://", "collector://[", "collector://a:99999/x"),
            *("collector+http://127.0.0.1:1/web1", "collector://\u2100/x", "https://\udcff/"),
            *("http://127.0.0.1:1", "collector://127.0.0.1:1/\udcff", "collector://user:p@h/x"),
            *("collector://h/x?q", "collector://h/%ff%00", "collector://" + "a" * 300),
            *("collector+http://127.0.0.1:1/" + "x" * 9000, "collector://a..b/x"),
            *("http://127.0.0.1:1/\x1b[2J", "collector://127.0.0.1:0/x", "collector+http://127.0.0.1:1/a b"),
            *("collector://[::1]:1/x", "ftp://h/"),
        ]
    )
    | _TEXTS
)
"""Values of a collector's URL."""

_RECORDER_NAMES: Final = [
    *("SERVICE_RECORDS_DIR", "SERVICE_RECORDS_LAYOUT", "SERVICE_NAME", "PRE_COMMAND", "POST_COMMAND"),
    *("INVOCATION_ID", "NOTIFY_SOCKET", "JOURNAL_STREAM", "LANG", "TZ"),
]


def _join_variables(variables: dict[str, str]) -> bytes:
    rows = (f"{name}={value}" for name, value in variables.items())
    return "\0".join(rows).encode(errors="surrogateescape")


RECORDER_VARIABLES = draw_from_corpus(
    "variables", st.dictionaries(st.sampled_from(_RECORDER_NAMES), _TEXTS, max_size=5).map(_join_variables)
)
"""Environment variables that the recorder reads, in the format of /proc/PID/environ."""


def parse_variables(variables: bytes) -> dict[str, str]:
    """Return the variables as a dictionary, without those that no environment can hold."""
    rows = (row.decode(errors="surrogateescape").partition("=") for row in variables.split(b"\0"))
    return {name: value for name, _, value in rows if name}
