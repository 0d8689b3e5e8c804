"""Check the files that users write: settings, definitions, rules. Pure.

Every error is one line: file, line, key, the fault, and what is allowed. Messages do not repeat values, which
may be secrets, unless a check that knows its value says otherwise.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    import yaml

_T = TypeVar("_T")
_NULL: Final = "tag:yaml.org,2002:null"
_MAX_NESTING: Final = 20
_MAX_TRIES: Final = 100  # to find where a value of many lines ends, before its first line is good enough
_AT: Final = re.compile(r" \(at line (\d+), column \d+\)$| \(at end of document\)$")
_BEGINS: Final = re.compile(r"""\s*(?:\[|#|[\w"'-][^=]*=)""")  # a statement of TOML, or something like it
_REFUSED_FIELD: Final = re.compile(r"\$\.(\w+)|field `(.*)`", re.DOTALL)

KeyPath: TypeAlias = tuple[str | int, ...]
"""Names of tables and keys, and places in lists, from the top of a document."""


class ConfigError(ValueError):
    """An error in a user's file, in one line: `PATH:LINE: KEY: REASON`."""

    def __init__(self, path: str, line: int, reason: str, key: str = "") -> None:
        super().__init__(f"{path}:{line}: {key}: {reason}" if key else f"{path}:{line}: {reason}")
        self.line = line


class Value:
    """A value in a file, and its place."""

    def __init__(self, content: Any, path: str, key: KeyPath, line: Callable[[], int]) -> None:
        self.content = content
        """A text, number, truth value, time or None; a list of values; or the pairs of a mapping."""
        self._path = path
        self._key = key
        self._line = line

    @property
    def line(self) -> int:
        """Return the line number, from 1."""
        return self._line()

    @property
    def raw(self) -> Any:
        """Return the value as plain dictionaries, lists and scalars."""
        if isinstance(self.content, tuple):
            return {key.content: value.raw for key, value in self.content}
        return [item.raw for item in self.content] if isinstance(self.content, list) else self.content

    def fault(self, reason: str) -> ConfigError:
        """Return an error at this place."""
        from service_record.record.visible import visible  # most files have no error

        # A place in a list has no name, and the line says which one it is.
        key = ".".join(part for part in self._key if isinstance(part, str))
        return ConfigError(self._path, self.line, visible(reason), visible(key))

    def unknown(self, fault: str, word: str, allowed: Sequence[str], label: str) -> ConfigError:
        """Return the error for a word that is not allowed, with the nearest one that is."""
        near = find_nearest(word, allowed)
        hint = f"did you mean {near}? " if near else ""
        return self.fault(f"{fault}; {hint}{label} {', '.join(allowed)}")

    def fields(self, what: str, names: Collection[str] = ()) -> dict[str, "Value"]:
        """Return the fields of a mapping. Raises ConfigError for unknown or repeated ones."""
        if not isinstance(self.content, tuple):
            raise self.fault(f"{what} has fields: names with values")
        fields: dict[str, Value] = {}
        for key, value in self.content:
            name = key.text()
            if names and name not in names:
                raise value.unknown("no such field", name, tuple(names), f"{what} has")
            if name in fields:
                raise key.fault("it is here twice; remove one")
            fields[name] = value
        return fields

    def items(self) -> list["Value"]:
        """Return the items of a list. Raises ConfigError for anything else."""
        if not isinstance(self.content, list):
            raise self.fault("not a list; begin each item with `-`")
        return self.content

    def text(self) -> str:
        """Return a text. Raises ConfigError if it is empty or not a text."""
        if not isinstance(self.content, str) or not self.content.strip():
            raise self.fault("not a text, or an empty one")
        return self.content

    def texts(self) -> list["Value"]:
        """Return the items of a list, or a single value as a list."""
        return self.items() if isinstance(self.content, list) else [self]

    def word(self, what: str, words: Sequence[str], plural: str) -> str:
        """Return one of these words. Raises ConfigError with the nearest one for any other."""
        word = self.text()
        if word not in words:
            raise self.unknown(f"no {what} {word!r}", word, words, f"{plural} are")
        return word

    def convert(self, kind: type[_T], what: str, expected: Mapping[str, str]) -> _T:
        """Return the mapping as a struct of msgspec. Raises ConfigError at the field that is wrong.

        `expected` says of each field what it may be.
        """
        import msgspec  # not every reader of a file has it loaded

        raw = self.raw
        try:
            return msgspec.convert(raw, kind)
        except msgspec.ValidationError as error:
            named = _REFUSED_FIELD.search(str(error))
        name = (named[1] or named[2]) if named else ""
        fields = self.fields(what, tuple(expected))
        if name in fields:
            raise fields[name].fault(expected[name])
        raise self.fault(f"{what} needs `{name}`: {expected[name]}" if name in expected else f"not {what}")


def find_nearest(word: str, allowed: Collection[str]) -> str | None:
    """Return the allowed word that is nearest; None if none is near."""
    from difflib import get_close_matches  # most files have no error

    return next(iter(get_close_matches(word.lower(), allowed, n=1, cutoff=0.7)), None)


def parse_toml(text: str, path: str) -> Value:
    """Parse a TOML document. Raises ConfigError if it is not TOML."""
    try:
        document = tomllib.loads(text)
        lines: dict[KeyPath, int] = {}

        def find_line(key: KeyPath) -> int:
            if not lines:
                lines.update(_find_lines(text))
            while key and key not in lines:
                key = key[:-1]
            return lines.get(key, 1)

        return _from_toml(document, path, (), find_line)
    except tomllib.TOMLDecodeError as error:
        at = _AT.search(str(error))
        line = int(at[1]) if at and at[1] else text.count("\n") + (not text.endswith("\n"))
        raise ConfigError(path, max(line, 1), f"not TOML: {_AT.sub('', str(error))}") from None
    except RecursionError:
        raise ConfigError(path, 1, "nested too deeply") from None
    except ValueError as error:  # a number with more digits than Python takes
        raise ConfigError(path, 1, f"not TOML: {error}") from None


def _from_toml(content: Any, path: str, key: KeyPath, find_line: Callable[[KeyPath], int]) -> Value:
    def line() -> int:
        return find_line(key)

    if isinstance(content, dict):
        content = tuple(
            (Value(name, path, (*key, name), line), _from_toml(value, path, (*key, name), find_line))
            for name, value in content.items()
        )
    elif isinstance(content, list):
        content = [_from_toml(item, path, (*key, at), find_line) for at, item in enumerate(content)]
    return Value(content, path, key, line)


def _find_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of each table and key in a valid TOML document; the parser does not have them.

    Each statement is parsed by itself. It ends where it parses, and the next one may begin.
    """
    lines: dict[KeyPath, int] = {(): 1}
    numbers: dict[KeyPath, int] = {}  # tables so far in each array of tables
    table: KeyPath = ()
    statement, start, tries = "", 1, 0
    rows = [(number, row) for number, row in enumerate(text.split("\n"), 1) if row.strip()]
    for (number, row), (_, following) in pairwise([*rows, (0, "[")]):
        if not statement:
            if row.lstrip().startswith("#"):
                continue
            start, tries = number, 0
        statement += f"{row}\n"
        if not _BEGINS.match(following):
            continue
        tries += 1
        if tries > _MAX_TRIES:
            break
        try:
            parsed = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:  # a text or a list of several lines is not over
            continue
        if statement.lstrip().startswith("["):
            table = _enter_table(parsed, numbers)
            lines.setdefault(table[:-1] if isinstance(table[-1], int) else table, start)
            lines.setdefault(table, start)
        else:
            _note_keys(parsed, table, start, lines)
        statement = ""
    return lines


def _enter_table(parsed: Any, numbers: dict[KeyPath, int]) -> KeyPath:
    """Return the key path of a table from its header, which was parsed by itself."""
    table: KeyPath = ()
    while isinstance(parsed, dict) and parsed:
        name, parsed = next(iter(parsed.items()))
        table = (*table, name)
        if isinstance(parsed, list):
            numbers[table] = numbers.get(table, -1) + 1
            return (*table, numbers[table])
        if parsed and table in numbers:  # within the last table of this array
            table = (*table, numbers[table])
    return table


def _note_keys(parsed: Mapping[str, Any], table: KeyPath, line: int, lines: dict[KeyPath, int]) -> None:
    for name, value in parsed.items():
        lines.setdefault((*table, name), line)
        if isinstance(value, dict):
            _note_keys(value, (*table, name), line, lines)


def parse_yaml(text: str, path: str) -> Value | None:
    """Parse a YAML document; None if it has only comments. Raises ConfigError if it is not YAML.

    All scalars are texts.
    """
    import yaml  # slow import

    loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # missing without libyaml
    try:
        _check_nesting(text, path, loader)
        node = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigError(path, mark.line + 1 if mark else 1, f"not YAML: {error.problem}") from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise ConfigError(path, 1, f"not YAML: {str(error).splitlines()[0]}") from None
    return None if node is None else _from_yaml(node, path, (), yaml)


def _from_yaml(node: "yaml.Node", path: str, key: KeyPath, yaml: Any) -> Value:
    content: Any = None
    if isinstance(node, yaml.MappingNode):
        content = []
        for name, value in node.value:
            inner = (*key, str(name.value) if isinstance(name, yaml.ScalarNode) else "?")
            content.append((_from_yaml(name, path, inner, yaml), _from_yaml(value, path, inner, yaml)))
        content = tuple(content)
    elif isinstance(node, yaml.SequenceNode):
        content = [_from_yaml(item, path, (*key, at), yaml) for at, item in enumerate(node.value)]
    elif node.tag != _NULL:
        content = str(node.value)
    return Value(content, path, key, lambda: node.start_mark.line + 1)


def _check_nesting(text: str, path: str, loader: type[Any]) -> None:
    """Reject deeply nested documents: libyaml composes recursively and would crash."""
    import yaml  # as above

    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_NESTING:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise ConfigError(path, line, "nested too deeply")
