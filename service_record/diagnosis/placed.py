"""YAML that people write, with the line of each value, so that a fault is named with its place. Pure."""

from collections.abc import Collection
from typing import Any, Final

import msgspec
import yaml

_FAST: Final[type[Any]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # absent where libyaml is
_NULL: Final = "tag:yaml.org,2002:null"
_DEEPEST: Final = 20


class FileError(ValueError):
    """What is wrong with a file that a person wrote, in one line: `PATH:LINE: REASON`."""


class Value(msgspec.Struct, frozen=True):
    """A value in a document, and where it stands."""

    node: yaml.Node
    path: str

    def fault(self, reason: str) -> FileError:
        return FileError(f"{self.path}:{self.node.start_mark.line + 1}: {reason}")

    def fields(self, what: str, known: Collection[str] = ()) -> dict[str, "Value"]:
        """The fields of a mapping; raises FileError on one that is not known, or stands there twice."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.fault(f"{what} has fields, like `name: value`")
        found: dict[str, Value] = {}
        for key, value in self.node.value:
            name = Value(key, self.path).text("a name")
            if known and name not in known:
                raise Value(key, self.path).fault(f"{what} has no field {name!r}; it has {', '.join(known)}")
            if name in found:
                raise Value(key, self.path).fault(f"{name!r} stands here twice")
            found[name] = Value(value, self.path)
        return found

    def items(self, what: str) -> list["Value"]:
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.fault(f"{what} are a list, each beginning with `-`")
        return [Value(item, self.path) for item in self.node.value]

    def text(self, what: str) -> str:
        """A text that is not empty."""
        if (
            not isinstance(self.node, yaml.ScalarNode)
            or self.node.tag == _NULL
            or not self.node.value.strip()
        ):
            raise self.fault(f"{what} is a text, and not empty")
        return str(self.node.value)

    def texts(self, what: str) -> list["Value"]:
        """One text, or a list of them."""
        return self.items(what) if isinstance(self.node, yaml.SequenceNode) else [self]


def document(text: str, path: str) -> Value | None:
    """The document in a text; None when that is only comments. Raises FileError where it is not YAML."""
    try:
        _check_nesting(text, path)
        node = yaml.compose(text, Loader=_FAST)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise FileError(f"{path}:{mark.line + 1 if mark else 1}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:  # a character that YAML has not
        raise FileError(f"{path}:1: not YAML: {str(error).splitlines()[0]}") from None
    return None if node is None else Value(node, path)


def _check_nesting(text: str, path: str) -> None:
    """Refuse what is nested without end: libyaml composes by recursion, and does not survive that."""
    depth = 0
    for event in yaml.parse(text, Loader=_FAST):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise FileError(f"{path}:{line}: nested too deeply")
