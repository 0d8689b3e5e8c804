"""Parsers for files in which a host keeps secrets: one for each syntax, not one for each file. Pure.

A parser yields names and values as the program that owns the file reads them, without quotes and escapes. The
values are not checked for randomness; `is_secret_name` decides by the name which values are secret.
"""

import html
import json
import re
import shlex
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from service_record.redaction.ordinary_words import PASSWORD
from service_record.redaction.secret_names import find_name

Named: TypeAlias = tuple[str, str]
Parser: TypeAlias = Callable[[str], Iterator[Named]]

INNER: Final = "inner text"
"""The name for values that are texts themselves, such as scripts or files in YAML. They may be base64."""
_MAX_TREE_CHARACTERS: Final = 1 << 20
_MAX_TREE_DEPTH: Final = 100
_MAX_WORDS_LINE: Final = 4096
_OTHER_NAMES: Final = frozenset({"auth", "xauth", "eap", "account", "auths", "creds", "pass", "pw", "pin"})
_OTHER_ENDS: Final = ("community", "cookie")
"""Names, and ends of names, that are secret only in these files."""
_WORKING_DIRECTORIES: Final = frozenset({"PWD", "OLDPWD"})
"""Variables of every shell. As secrets, their paths would be masked in everything that leaves the host."""
_WITH_USER: Final = frozenset({"auth", "user", "list", "creds", "userinfo", "proxyuser"})
"""Names whose values are `user:password`."""
_REFERENCE: Final = re.compile(r"/[\w.-]+/|\$[({A-Za-z]|https?://|file:")
_OPTION: Final = re.compile(r"--?[a-z][a-z-]*(?:=.*)?")
_KEY_FILE_ESCAPES: Final = {"s": " ", "n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


def is_secret_name(name: str) -> bool:
    """Return True if a value of this name may be secret."""
    is_known = find_name(name.encode()) is not None
    return _is_other_name(name) or (is_known and name not in _WORKING_DIRECTORIES)


def _is_other_name(name: str) -> bool:
    return _plain(name) in _OTHER_NAMES or name.lower().endswith(_OTHER_ENDS)


def secrets_among(values: Iterator[Named], names: frozenset[str] = frozenset()) -> Iterator[Named]:
    """Yield the secret values. `names` are further names that are secret in this file.

    Every value of a password is secret, because a password may look like a path. A path or variable as the
    value of a token or key is not.
    """
    for name, value in values:
        if name == INNER:
            yield name, value
            continue
        if _plain(name) in _WITH_USER and ":" in value:
            for line in value.splitlines():
                yield "password", line.strip().partition(":")[2]
        if name in names or (is_secret_name(name) and _may_be_secret(name, value)):
            yield name, value


def _may_be_secret(name: str, value: str) -> bool:
    """Return True if a value of a secret name is secret."""
    found = find_name(name.encode())
    if found is None or found.check is PASSWORD or _is_other_name(name):
        return True
    return not _REFERENCE.match(value) and found.check(value.encode(errors="surrogateescape"))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.rpartition("/")[2].lower())


def ini(text: str) -> Iterator[Named]:
    """Read `name = value` or `name: value` in each line, with values up to the end of the line.

    Reads key files of NetworkManager, environment files, and systemd units.
    """
    for line in (line.strip().removeprefix("- ").removeprefix("export ") for line in text.splitlines()):
        if line.startswith(("#", ";", "[")):
            continue
        at = min((at for at in (line.find("="), line.find(":")) if at > 0), default=0)
        name, value = line[:at].strip(), line[at + 1 :].strip()
        if not at or not value or " " in name:
            continue
        yield from _remove_quotes(name, value)
        if "=" in value:  # Environment="NAME=value"
            yield from words(value)


def _remove_quotes(name: str, value: str) -> Iterator[Named]:
    """Yield a value unchanged, without its quotes, and without the escapes of key files."""
    yield name, value
    inner = value.rstrip(",;")
    if len(inner) > 1 and inner[0] in "\"'" and inner[0] == inner[-1]:
        yield name, inner[1:-1]
        if inner[0] == '"' and "\\" in inner:
            yield name, re.sub(r"\\(.)", r"\1", inner[1:-1])
    if "\\" in value:
        yield name, re.sub(r"\\(.)", lambda escape: _KEY_FILE_ESCAPES.get(escape[1], escape[0]), value)
    if value[0] == "'" and not value.endswith("'"):
        return
    if value[0] in "\"'":
        word = next(iter(_split(value)), "")
        yield name, word


def words(text: str) -> Iterator[Named]:
    """Read shell words: `--name=value`, `name=value`, and `name value`, also with options between them.

    Reads kickstarts, mount options, kernel command lines, and files of directives such as keepalived.conf. In
    some of them quotes have no meaning, so each line is read twice: with and without quoting.
    """
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if not line.lstrip().startswith("#"):
            yield from _read_words(_split(line[:_MAX_WORDS_LINE]))
            yield from _read_words(line[:_MAX_WORDS_LINE].split())


def _read_words(split: list[str]) -> Iterator[Named]:
    for number, word in enumerate(split):
        name, equals, value = word.lstrip("-").partition("=")
        if equals:
            yield name, value
            options = (part.partition("=") for part in word.lstrip("-").split(","))  # of mount(8)
            yield from ((option, setting) for option, equals, setting in options if equals)
        elif is_secret_name(name):
            behind = next((other for other in split[number + 1 :] if not _OPTION.fullmatch(other)), "")
            yield name, behind
            yield name, behind.strip("\"';")


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=False)
    except ValueError:  # an unpaired quote: the file has another syntax
        return line.split()


def preseed(text: str) -> Iterator[Named]:
    """Read debconf lines: owner, question, type, and a value up to the end of the line."""
    for line in text.splitlines():
        match = re.match(r"\s*\S+\s+(\S+)\s+(\S+)\s(.+)", line)
        if match and (match[2] == "password" or "passw" in match[1]):
            yield "password", match[3]


def netrc(text: str) -> Iterator[Named]:
    """Read the whole file as words, in which a value follows its name."""
    tokens = _split(re.sub(r"(?m)^[^\S\n]*#.*", "", text))
    yield from pairwise(tokens)
    raw = text.split()  # a password that contains a quote is not quoted
    yield from pairwise(raw)


def columns(number: int, separator: str | None = None) -> Parser:
    """Return a parser that reads one column of each line, and also removes a prefix such as `HEX:`."""

    def read_column(text: str) -> Iterator[Named]:
        for line in text.splitlines():
            if line.lstrip().startswith("#"):
                continue
            fields = re.split(r"(?<!\\):", line) if separator == ":" else line.split(separator)
            if len(fields) > number:
                value = fields[number].strip("\"'")
                yield "auth", fields[number]
                yield "password", value.removeprefix("HEX:").removeprefix("ASCII:")
                yield "password", re.sub(r"\\([:\\])", r"\1", value)

    return read_column


def urls(text: str) -> Iterator[Named]:
    """Read the password, which may contain `/` or `@`, in `scheme://user:password@host`; or a token there."""
    for word in re.findall(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s\"'<>]{1,4096}", text):
        userinfo, at, _ = word.partition("://")[2].rpartition("@")
        if not at:
            continue
        user, colon, password = userinfo.partition(":")
        for value in {password, unquote(password)} if colon else {user, unquote(user)}:
            yield "password" if colon else "token", value


def xml(text: str) -> Iterator[Named]:
    """Read elements with text, attributes, and pairs such as `<param name="password" value="...">`."""
    for tag, attributes, content in re.findall(r"<([\w:.-]{1,80})([^<>]{0,2000})>([^<]{0,4096})", text):
        named = {
            name: html.unescape(first or second)
            for name, first, second in re.findall(
                r"([\w:.-]{1,80})\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", attributes
            )
        }
        yield from named.items()
        value = html.unescape(content).strip()
        for name in (tag, named.get("name", "")):
            if value:
                yield name, value
            if "value" in named:
                yield name, named["value"]


def tree(text: str) -> Iterator[Named]:
    """Read JSON and YAML: keys with scalars, arguments in lists, and pairs of `name` and `value`.

    A text that is damaged, too long, or a template is read line by line.
    """
    documents = _documents(text)
    yield from _walk(documents) if documents else ini(text)


def _documents(text: str) -> list[Any]:
    """Return the documents in a JSON or YAML text, or an empty list for other text."""
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        return _yaml_documents(text) if len(text) <= _MAX_TREE_CHARACTERS else []


def _yaml_documents(text: str) -> list[Any]:
    """Build documents from events. The composer of libyaml recurses, so deep nesting would crash it."""
    import yaml  # slow to import, and many hosts have no such file

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    open_nodes: list[list[Any]] = [[]]
    try:
        for event in yaml.parse(text, loader):
            if isinstance(event, yaml.ScalarEvent):
                open_nodes[-1].append(event.value)
            elif isinstance(event, yaml.AliasEvent):
                open_nodes[-1].append("")
            elif isinstance(event, yaml.CollectionStartEvent):
                open_nodes.append([])
                if len(open_nodes) > _MAX_TREE_DEPTH:
                    return []
            elif isinstance(event, yaml.CollectionEndEvent):
                node = open_nodes.pop()
                is_mapping = isinstance(event, yaml.MappingEndEvent)
                pairs = zip(node[::2], node[1::2], strict=True) if is_mapping else ()
                open_nodes[-1].append({str(key): value for key, value in pairs} if is_mapping else node)
    except (yaml.YAMLError, ValueError):
        return []
    return open_nodes[0]


def _walk(documents: list[Any]) -> Iterator[Named]:
    waiting: list[tuple[str, Any]] = [("", document) for document in documents]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, str | int):
            yield name, str(value)
            if isinstance(value, str) and "\n" in value.strip():
                yield INNER, value
        elif isinstance(value, dict | list):
            if isinstance(value, list):
                waiting += ((name, each) for each in value)
                yield from _arguments([each for each in value if isinstance(each, str)])
                continue
            waiting += ((str(key), each) for key, each in value.items())
            if "path" in value and isinstance(value.get("content"), str):  # a file of cloud-init
                yield INNER, value["content"]
            if isinstance(value.get("name"), str) and isinstance(value.get("value"), str):
                yield value["name"], value["value"]


def _arguments(items: list[str]) -> Iterator[Named]:
    """Read the options in a command line that is written as a list."""
    for item, following in pairwise([*items, ""]):
        name, equals, value = item.partition("=")
        if name.startswith("-"):
            yield name, value if equals else following


def user_data(text: str) -> Iterator[Named]:
    """Read cloud-init user data: YAML, a script, or a MIME message with several of them."""
    if text.startswith(("Content-Type: multipart", "MIME-Version:")):
        from email import message_from_string  # few hosts have such user data

        for part in message_from_string(text).walk():
            payload = part.get_payload(decode=True)
            if isinstance(payload, bytes) and payload:
                yield INNER, payload.decode(errors="surrogateescape")
    elif text.startswith("#!"):
        yield from ini(text)
        yield from words(text)
    else:
        yield from tree(text)


def anything(text: str) -> Iterator[Named]:
    """Read a text in an unknown syntax, such as a file in an Ignition config."""
    if text.lstrip()[:1] in {"{", "["}:
        yield from tree(text)
    elif text.startswith(("#cloud-config", "Content-Type: multipart", "MIME-Version:", "#!")):
        yield from user_data(text)
    else:
        yield from ini(text)
