"""Read the YAML files that users write: rules of causes, and budgets. Errors have line numbers. Pure.

docs/cause-rules.md and docs/analyze.md describe the formats.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from service_record.diagnosis.budget import BudgetFile
from service_record.diagnosis.cause_rules import (
    OWN,
    CauseRule,
    Condition,
    FactTest,
    LineTest,
    Phrase,
    Rank,
    find_placeholders,
)
from service_record.diagnosis.evidence.fact_checks import CHECKS, MEASURES, ROLES
from service_record.diagnosis.evidence.facts import FACT_NAMES
from service_record.diagnosis.evidence.line_patterns import Pattern
from service_record.diagnosis.evidence.log_lines import KINDS_OF_LINES
from service_record.diagnosis.findings import KINDS
from service_record.record.config_file import Value, parse_yaml
from service_record.record.quantities import parse_duration


def read_budgets(text: str, path: str) -> BudgetFile:
    """Parse a budget file. Raises ConfigError."""
    root = parse_yaml(text, path)
    if root is None:
        return BudgetFile()
    top = root.fields("a budget file", ("stage", "services"))
    runs: dict[str, float] = {}
    stages: dict[tuple[str, str], float] = {}
    services = top["services"].fields("`services`") if "services" in top else {}
    for service, value in services.items():
        own = value.fields("a service", ("run", "stages"))
        if "run" in own:
            runs[service] = _parse_seconds(own["run"])
        named = own["stages"].fields("`stages`") if "stages" in own else {}
        stages |= {(service, stage): _parse_seconds(limit) for stage, limit in named.items()}
    return BudgetFile(
        stage=_parse_seconds(top["stage"]) if "stage" in top else None, runs=runs, stages=stages
    )


def _parse_seconds(value: Value) -> float:
    text = value.text()
    try:
        return parse_duration(text)
    except ValueError as error:
        raise value.fault(str(error)) from None


_SOURCES: Final = frozenset({OWN, "any", *KINDS_OF_LINES})
_NAMED_SOURCES: Final = ("unit:", "container:")
WITHIN: Final = ("run", "boot", "any")
_MAX_TIMES: Final = 20
_LAST: Final = "last"
"""The value of `symptom` for a symptom that can follow from other symptoms."""
_TEXTS: Final = ("service", "stage", "command")
_WORDS: Final = ("kind", "exit", "signal", "systemd")
_LINE_FIELDS: Final = ("where", "times", "measure", "same")
_CONDITION: Final = ("message", *_LINE_FIELDS, "fact", "check", "role", "rule", *_TEXTS, *_WORDS)
_FIELDS: Final = (
    *("name", "says", "explains", "rank", "symptom", "next", "sources", "needs", "unless"),
    *("within", "heals", "noise", "program", "over"),
    *(name for name in _CONDITION if name != "rule"),
)
_ALWAYS_KNOWN: Final = frozenset({"service", "unit"})
_BUILT_IN_NAMES: Final = _ALWAYS_KNOWN | {"stage", "invocation"}
"""Placeholders that every rule may use. Only _ALWAYS_KNOWN have a value in every case."""


def read_rules(text: str, path: str) -> tuple[CauseRule, ...]:
    """Parse a file of rules. Raises ConfigError."""
    root = parse_yaml(text, path)
    rules: dict[str, CauseRule] = {}
    for value in root.items() if root is not None else ():
        rule = _parse_rule(value)
        if rule.name in rules:
            raise value.fault(f"a rule is called {rule.name!r} already")
        rules[rule.name] = rule
    return tuple(rules.values())


def _parse_rule(value: Value) -> CauseRule:
    fields = value.fields("a rule", _FIELDS)
    for required in ("name", "says"):
        if required not in fields:
            raise value.fault(f"a rule needs `{required}`")
    condition = _parse_condition(fields)
    if condition.is_empty:
        known_by = (*_TEXTS, "message", *_WORDS, "fact", "check", "role")
        raise value.fault(f"a rule needs something to be known by: {', '.join(known_by)}")
    if "rank" in fields and "symptom" in fields:
        raise fields["symptom"].fault("give `rank` or `symptom`, not both")
    symptom = _parse_choice(fields, "symptom", ("true", "false", _LAST), "false")
    rank = Rank(_parse_choice(fields, "rank", tuple(map(str, Rank)), "cause"))
    if symptom != "false":
        rank = Rank.SYMPTOM
    needs = _parse_conditions(fields, "needs")
    names = _BUILT_IN_NAMES.union(*map(_find_provided_names, (condition, *needs)))
    return CauseRule(
        name=fields["name"].text(),
        says=_parse_phrase(fields["says"], names),
        explains=_parse_phrase(fields["explains"], names) if "explains" in fields else None,
        rank=rank,
        is_last=symptom == _LAST,
        next=tuple(_parse_command(one, names) for one in _list_texts(fields, "next")),
        sources=tuple(one.text() for one in _list_texts(fields, "sources")),
        condition=condition,
        needs=needs,
        unless=_parse_conditions(fields, "unless"),
        within=_parse_choice(fields, "within", WITHIN, "run"),
        heals=_parse_choice(fields, "heals", ("true", "false"), "false") == "true",
        noise=_parse_choice(fields, "noise", ("true", "false"), "false") == "true",
        program=_parse_pattern(fields["program"]) if "program" in fields else None,
        over=frozenset(one.text() for one in _list_texts(fields, "over")),
    )


def _list_texts(fields: Mapping[str, Value], name: str) -> Sequence[Value]:
    return fields[name].texts() if name in fields else ()


def _parse_choice(fields: Mapping[str, Value], name: str, choices: Sequence[str], default: str) -> str:
    if name not in fields:
        return default
    word = fields[name].text().lower()
    if word not in choices:
        raise fields[name].unknown(f"{word!r} is not valid", word, choices, "use one of")
    return word


def _parse_conditions(fields: Mapping[str, Value], name: str) -> tuple[Condition, ...]:
    if name not in fields:
        return ()
    conditions = []
    for one in fields[name].items():
        condition = _parse_condition(one.fields(f"a condition of `{name}`", _CONDITION))
        if condition.is_empty:
            raise one.fault(f"a condition of `{name}` needs one of: {', '.join(_CONDITION)}")
        conditions.append(condition)
    return tuple(conditions)


def _parse_condition(fields: Mapping[str, Value]) -> Condition:
    lines = None
    if "message" in fields:
        where = frozenset(map(_parse_source, _list_texts(fields, "where"))) or frozenset({OWN})
        patterns = tuple(_parse_pattern(one) for one in _list_texts(fields, "message"))
        lines = LineTest(
            patterns=patterns,
            where=where,
            times=_parse_times(fields),
            measure=_parse_measure(fields, patterns),
            same=_parse_same(fields, patterns),
        )
    elif wrong := next((fields[name] for name in _LINE_FIELDS if name in fields), None):
        raise wrong.fault("`where`, `times`, `measure` and `same` are about a `message`, and there is none")
    facts = fields["fact"].fields("`fact`", sorted(FACT_NAMES)) if "fact" in fields else {}
    return Condition(
        lines=lines,
        facts=tuple(
            FactTest(name=name, patterns=tuple(map(_parse_pattern, one.texts())))
            for name, one in facts.items()
        ),
        check=fields["check"].word("check", sorted(CHECKS), "checks") if "check" in fields else None,
        roles=frozenset(one.word("role", ROLES, "roles") for one in _list_texts(fields, "role")),
        rules=frozenset(one.text() for one in _list_texts(fields, "rule")),
        texts={
            name: tuple(_parse_pattern(one) for one in _list_texts(fields, name))
            for name in _TEXTS
            if name in fields
        },
        words={
            name: frozenset(_parse_word(one, name) for one in _list_texts(fields, name))
            for name in _WORDS
            if name in fields
        },
    )


def _parse_times(fields: Mapping[str, Value]) -> int:
    if "times" not in fields:
        return 1
    word = fields["times"].text()
    if not word.isdecimal() or not 1 <= int(word) <= _MAX_TIMES:
        raise fields["times"].fault(f"not a number from 1 to {_MAX_TIMES}")
    return int(word)


def _parse_measure(fields: Mapping[str, Value], patterns: Sequence[Pattern]) -> str | None:
    if "measure" not in fields:
        return None
    name = fields["measure"].word("measure", sorted(MEASURES), "measures")
    needed = MEASURES[name].groups
    if any(not set(needed) <= set(pattern.names) for pattern in patterns):
        groups = " and ".join(f"(?P<{group}>...)" for group in needed)
        raise fields["measure"].fault(f"each pattern needs {groups}, which `{name}` measures")
    return name


def _parse_same(fields: Mapping[str, Value], patterns: Sequence[Pattern]) -> dict[str, str]:
    if "same" not in fields:
        return {}
    same = {}
    for group, value in fields["same"].fields("`same`").items():
        fact = value.word("fact", sorted(FACT_NAMES), "facts")
        if any(group not in pattern.names for pattern in patterns):
            raise value.fault(f"each pattern needs (?P<{group}>...), which `same` compares")
        same[group] = fact
    return same


def _parse_source(value: Value) -> str:
    word = value.text()
    if word not in _SOURCES and not (word.startswith(_NAMED_SOURCES) and word.partition(":")[2]):
        forms = (*sorted(_SOURCES), *(f"{form}NAME" for form in _NAMED_SOURCES))
        raise value.unknown(f"no place {word!r}", word, forms, "places are")
    return word


def _parse_pattern(value: Value) -> Pattern:
    pattern = Pattern.parse(value.text())
    import re2  # slow import, needed only to check rules

    try:
        _ = pattern.compiled
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        problem = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise value.fault(f"not a pattern of RE2: {problem}") from None
    return pattern


def _parse_word(value: Value, name: str) -> str:
    if name == "kind":
        return value.word("kind", sorted(KINDS), "kinds")
    word = value.text()
    if name == "exit" and not word.isdecimal():
        raise value.fault(f"{word!r} is not an exit status")
    return word.removeprefix("SIG") if name == "signal" else word


def _find_provided_names(condition: Condition) -> frozenset[str]:
    """Return the placeholders for which a condition can provide values."""
    patterns = [pattern for each in condition.texts.values() for pattern in each]
    patterns += condition.lines.patterns if condition.lines is not None else ()
    patterns += [pattern for fact in condition.facts for pattern in fact.patterns]
    checked = CHECKS[condition.check].values if condition.check is not None else ()
    measure = condition.lines.measure if condition.lines is not None else None
    measured = MEASURES[measure].values if measure is not None else ()
    return frozenset(name for pattern in patterns for name in pattern.names).union(checked, measured)


def _parse_command(value: Value, names: Collection[str]) -> str:
    command = value.text()
    _check_names(value, find_placeholders(command), names)
    return command


def _parse_phrase(value: Value, names: Collection[str]) -> Phrase:
    phrase = Phrase.parse(value.text())
    _check_names(value, phrase.names, names)
    unsure = phrase.needs - _ALWAYS_KNOWN
    if unsure:
        one = f"{{{min(unsure)}}}"
        raise value.fault(f"{one} may not be known; write [{one}|something], or [what is left out {one}]")
    return phrase


def _check_names(value: Value, names: Collection[str], allowed: Collection[str]) -> None:
    unknown = set(names) - set(allowed)
    if unknown:
        word = min(unknown)
        raise value.unknown(f"nothing is called {{{word}}} here", word, sorted(allowed), "there are")
