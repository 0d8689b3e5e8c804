"""YAML that people write, with the line of each value, so that a fault is named with its place. Pure."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:  # who reads no file of a person needs no YAML
    import yaml

_NULL: Final = "tag:yaml.org,2002:null"
_DEEPEST: Final = 20


class FileError(ValueError):
    """A fault of a file that a person wrote, in one line: `PATH:LINE: REASON`."""


class Value(msgspec.Struct, frozen=True):
    """A value in a document, and where it stands."""

    content: "str | list[Value] | tuple[tuple[Value, Value], ...] | None"
    """A text, the items of a list, the names and values of a mapping, or nothing."""
    line: int
    """From 1."""
    path: str

    def fault(self, reason: str) -> FileError:
        """Return an error at this place."""
        return FileError(f"{self.path}:{self.line}: {reason}")

    def fields(self, what: str, names: Collection[str] = ()) -> dict[str, "Value"]:
        """Return the fields of a mapping. Raises FileError for unknown or repeated ones."""
        if not isinstance(self.content, tuple):
            raise self.fault(f"{what} has fields, like `name: value`")
        fields: dict[str, Value] = {}
        for key, value in self.content:
            name = key.text("a name")
            if names and name not in names:
                raise key.fault(f"{what} has no field {name!r}; it has {', '.join(names)}")
            if name in fields:
                raise key.fault(f"{name!r} stands here twice")
            fields[name] = value
        return fields

    def items(self, what: str) -> list["Value"]:
        """Return the items of a list. Raises FileError for anything else."""
        if not isinstance(self.content, list):
            raise self.fault(f"{what} are a list, each beginning with `-`")
        return self.content

    def text(self, what: str) -> str:
        """Return a text that is not empty."""
        if not isinstance(self.content, str) or not self.content.strip():
            raise self.fault(f"{what} is a text, and not empty")
        return self.content

    def texts(self, what: str) -> list["Value"]:
        """Return one text, or a list of them, as a list."""
        return self.items(what) if isinstance(self.content, list) else [self]


def document(text: str, path: str) -> Value | None:
    """Parse the document in a text; None when it holds only comments. Raises FileError if it is not YAML."""
    import yaml  # noqa: PLC0415  # as above

    loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # absent where libyaml is
    try:
        _check_nesting(text, path, loader)
        node = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise FileError(f"{path}:{mark.line + 1 if mark else 1}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:  # a character that YAML has not
        raise FileError(f"{path}:1: not YAML: {str(error).splitlines()[0]}") from None
    return None if node is None else _value(node, path, yaml)


def _value(node: "yaml.Node", path: str, yaml: Any) -> Value:
    content: Any = None
    if isinstance(node, yaml.MappingNode):
        content = tuple((_value(key, path, yaml), _value(value, path, yaml)) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        content = [_value(item, path, yaml) for item in node.value]
    elif node.tag != _NULL:
        content = str(node.value)
    return Value(content, node.start_mark.line + 1, path)


def _check_nesting(text: str, path: str, loader: type[Any]) -> None:
    """Refuse what is nested without end: libyaml composes by recursion, and does not survive that."""
    import yaml  # noqa: PLC0415  # as above

    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise FileError(f"{path}:{line}: nested too deeply")
