"""Compose scripts at random from commands whose failure is handled and one failure on a known line.

The commands come from a small pool, so the text of the failing command also occurs on other lines, and a
handled command is often the last one that bash reported. In templates, `{C}` is a command, `{B}` a block and
`{N}` the name of a function; braces are doubled. `HERE` follows the failing line. ` => NAME` means that the
failing line is in that helper.
"""

import random
import re
from functools import cache
from typing import Final

from tests.endings.kinds import Kind

COMMANDS: Final = (
    "test -e /nowhere",
    "[ -f /nowhere ]",
    "ls /nowhere",
    "false",
    "[[ -e /nowhere ]]",
    "((0))",
    "no_such_command",
    "cd /nowhere",
    'test "$one" = two',
)
"""Commands that fail, mostly with status 1."""

HANDLED: Final = (
    "true",
    "one=1",
    'echo "$one" >log',
    "[[ -e / ]]",
    "((1))",
    "{C} || :",
    "{C} ||\n  true",
    "{C} \\\n  || true",
    "{C} && echo unreached",
    "{C} \\\n  && echo unreached",
    "! true",
    "! {C}",
    "{C} | true || :",
    "! {C} | cat",
    "if {C}; then\n  echo unreached\nfi",
    "if\n  {C}\nthen\n  echo unreached\nfi",
    "if\n  {C}\n  # a comment\nthen :; fi",
    "if ! {C}; then\n  :\nfi",
    "if ! {C}\nthen\n  true\nfi",
    "while {C}; do\n  echo unreached\ndone",
    "while\n  {C}\ndo\n  echo unreached\ndone",
    "until true; do\n  echo unreached\ndone",
    "for word in a b; do\n  {C} || continue\ndone",
    "for word in a b; do\n  break\n  true\ndone",
    "{{\n  {C}\n}} || :",
    "({C}) || :",
    "if (\n  {C}\n); then echo unreached; fi",
    "{{ {C}; }} || :",
    "case a in\n  a) {C} || : ;;\nesac",
    "quiet || :",
    "if quiet; then\n  echo unreached\nfi",
    "! quiet",
    ". ./quiet.inc || :",
    "if . ./quiet.inc; then\n  echo unreached\nfi",
    "eval '{C}' || :",
    "eval '\n{C}' || :",
    "value=$({C}) || :",
    "cat <<END >log\n{C}\nEND",
    'text="\n{C}\n"',
    "# {C}",
    "{C} &\nwait",
    "set +e\n{C}\nset -e",
    "other() {{\n  {C}\n}}",
    "coproc {{ {C}; }}\nwait || :",
)
FAILURES: Final = (
    "{C} HERE",
    "{C} HERE",
    "{C} HERE",
    "true && {C} HERE",
    "true &&\n  {C} HERE",
    "{C} | cat HERE",
    "true | {C} HERE",
    "({C}) HERE",
    "(exit 3) HERE",
    "(\n  {C} HERE\n)",
    "value=$({C}) HERE",
    "value=$(quiet) => quiet",
    "return_three => return_three",
    "loud => loud",
    ". ./loud.inc => source",
    ". ./nowhere.inc HERE",
    "eval '{C}' HERE",
    "eval 'true\n{C}\ntrue' HERE",
    'eval "$(declare -f loud)"; loud => loud',
    "{{ true; }} >/nowhere/x HERE",
    "{{ true; }} </nowhere/x HERE",
    "(true) >/nowhere/x HERE",
    "[[ -e / ]] 2>/nowhere/x HERE",
    "((1)) </nowhere/x HERE",
    '[[ -e / ]] <<<"$NOPE" HERE',
    "while read -r word; do\n  :\ndone </nowhere/x HERE",
    "for word in a b; do\n  :\ndone >/nowhere/x HERE",
    "until true; do :; done \\\n  </nowhere/x HERE",
    "if true; then\n  :\nfi >/nowhere/x HERE",
    "case a in\n  a) : ;;\nesac >/nowhere/x HERE",
    'while read -r word; do\n  :\ndone <<<"$NOPE" HERE',
    "for word in $NOPE; do HERE\n  :\ndone",
    "case $NOPE in HERE\n  a) : ;;\nesac",
    '{{ true; }} >"$NOPE" HERE',
    'echo "$NOPE" HERE',
    'echo "${{NOPE:?}}" HERE',
    "one=$NOPE HERE",
    "echo $((1 / 0)) HERE",
    "fixed=2 HERE",
    "fixed() {{ HERE\n  :\n}}",
    "for fixed in a b; do HERE\n  :\ndone",
    "exit 3 HERE",
    "{C} || exit 3 HERE",
    "if ! {C}; then\n  exit 3 HERE\nfi",
    "{C} || {{\n  echo stop\n  exit 3 HERE\n}}",
    "{C} || die now HERE",
    "if ! {C}; then die now; fi HERE",
    "die 'it is\n  over' HERE",
    "echo exit | cat; leave => leave",
    "list=({C}\n  $NOPE) HERE",
    "time {C} HERE",
    "true | while :; do\n  {C} HERE\n  break\ndone",
    "true | loud => loud",
    "wait_for_it & wait $! HERE",
    "let 0 HERE",
    "X=1 loud => loud",
    "command . ./loud.inc => source",
    "$call => loud",
    "{{ true; }} | {{ false; }} HERE",
)
BODIES: Final = (
    "{B}",
    "if true; then\n{B}\nfi",
    "if {C}; then\n  :\nelse\n{B}\nfi",
    "for word in a b; do\n{B}\ndone",
    "while true; do\n{B}\n  break\ndone",
    "while [[ $one ]]; do\n{B}\n  break\ndone",
    "case a in\n  a)\n{B}\n    ;;\nesac",
    "{{\n{B}\n}}",
    "{{\n{B}\n}} >log",
    "true && {{\n{B}\n}}",
)
FUNCTIONS: Final = (
    "{N}() {{\n{B}\n}}\n{N}",
    "{N}()\n{{\n{B}\n}}\n{N} now",
    "function {N} {{\n{B}\n}}\n{N}",
    "{N}() {{\n{B}\n}}\ncall_it() {{\n  {N}\n}}\ncall_it",
    "{N}() {{\n  if [[ ${{1-}} ]]; then\n    {C}\n    return\n  fi\n  {N} again || :\n{B}\n}}\n{N}",
    "{N}() {{\n  {C}\n}}\n{N} || :\n{N}() {{\n{B}\n}}\n{N}",
    "{N}() {{\n  local one=2 NOPE\n  unset NOPE\n{B}\n}}\n{N}",
)
PREAMBLE: Final = """one=1
TIMEFORMAT=
call=loud
readonly fixed=1
fixed() {{ :; }}
{{ readonly -f fixed; }}
die() {{ echo "$1"; exit 3; }}
leave() {{ true; exit 4 HERE; }}
return_three() {{ true; return 3 HERE; }}
wait_for_it() {{ exit 3; }}
"""
QUIET_HELPERS: Final = (
    "quiet() {{\n  {C} HERE\n}}\n",
    "quiet() {{\n  true\n  {C} HERE\n  return 1\n}}\n",
    "quiet() {{\n  true\n  {C} && echo unreached\n  false HERE\n}}\n",
    "quiet() {{ {C}; }} HERE\n",
)
LOUD_HELPERS: Final = (
    "loud() {{\n  {C} HERE\n}}\n",
    "loud() {{\n  {C} || return HERE\n}}\n",
    "loud() {{\n  (exit 3) HERE\n}}\n",
    "loud() {{\n  {{ true; }} >/nowhere/x HERE\n  return 1\n}}\n",
    "loud() {{\n  [[ -e /nowhere ]] HERE\n}}\n",
)
SOURCED_FILES: Final = ("{C} HERE\n", "true\n{C} HERE\n", "(exit 3) HERE\n", "quiet || :\nfalse HERE\n")
MARK: Final = " HERE"


class Composer:
    """Composes one script from a number."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(number)
        self._pool = self._random.sample(COMMANDS, self._random.choice((1, 1, 2, 4)))
        self._title = f"composed {number}"

    def compose(self) -> Kind:
        """Return the script and its failing line as a kind of ending."""
        failure, _, helper = self._random.choice(FAILURES).partition(" => ")
        name = self._random.choice(("work", "work", "main", "source_it"))
        block = self._block(failure)
        if "exit" in failure:  # so that the function does more than print and exit
            block = f"cd .\n{block}"
        script, function = block, ""
        if self._random.random() < 0.6:
            script = self._fill(self._random.choice(FUNCTIONS)).replace("<B>", indent(block))
            script, function = script.replace("<N>", name), name
        script = "\n".join([*self._quiet_statements(), script, *self._quiet_statements()]) + "\n"

        readonly = "readonly -f fixed" if failure.startswith("fixed()") else "true"
        pieces = {
            "": script,
            "prepared": self._fill(PREAMBLE).replace("{ readonly -f fixed; }", readonly),
            "quiet": self._fill(self._random.choice(QUIET_HELPERS)),
            "loud": self._fill(self._random.choice(LOUD_HELPERS)),
            "source": self._fill(self._random.choice(SOURCED_FILES)),
        }
        failing_piece = {"leave": "prepared", "return_three": "prepared"}.get(helper, helper)
        for piece, text in pieces.items():
            pieces[piece] = text if piece == failing_piece else text.replace(MARK, "")
        if failing_piece == "prepared":  # it has two marks
            other = "leave" if helper == "return_three" else "return_three"
            lines = pieces["prepared"].split("\n")
            pieces["prepared"] = "\n".join(
                line.replace(MARK, "") if line.startswith(other) else line for line in lines
            )
        text = pieces["prepared"] + pieces["quiet"] + pieces["loud"] + pieces[""]
        other_files = {"quiet.inc": self._fill("true\n{C}\n"), "loud.inc": pieces["source"]}
        if self._random.random() < 0.2:
            other_files["all.inc"], text = text, ". ./all.inc\n"
            function = function or "source"
        return self._make_kind(text, other_files, helper or function or "main")

    def _make_kind(self, text: str, other_files: dict[str, str], function: str) -> Kind:
        """Return the kind of ending: the script without its mark, and the place of the mark."""
        file, failing_text = next(
            (name, each) for name, each in {"service.sh": text, **other_files}.items() if MARK in each
        )
        line = failing_text.count("\n", 0, failing_text.index(MARK)) + 1
        assert failing_text.count(MARK) == 1, failing_text
        return Kind(
            title=self._title,
            script=text.replace(MARK, ""),
            others={name: each.replace(MARK, "") for name, each in other_files.items()},
            doubtful=True,
            fails_at=(line, function, file),
        )

    def _block(self, failure: str) -> str:
        """Return the failing statement among others, perhaps within a compound command."""
        statements = [*self._quiet_statements(), self._fill(failure), *self._quiet_statements()]
        block = "\n".join(statements)
        for _ in range(self._random.choice((0, 0, 1, 2))):
            block = self._fill(self._random.choice(BODIES)).replace("<B>", indent(block))
            block = "\n".join([*self._quiet_statements(), block, *self._quiet_statements()])
        return block

    def _quiet_statements(self) -> list[str]:
        return [self._fill(self._random.choice(HANDLED)) for _ in range(self._random.choice((0, 1, 1, 2)))]

    def _fill(self, template: str) -> str:
        """Return a template with its commands; the block and the name of a function are filled in later."""
        text = template.replace("{C}", "\0").replace("{B}", "<B>").replace("{N}", "<N>")
        text = text.replace("{{", "{").replace("}}", "}")
        while "\0" in text:
            text = text.replace("\0", self._random.choice(self._pool), 1)
        return text


def indent(block: str) -> str:
    """Indent a block, except where a line belongs to a here-document or a string."""
    return block if re.search(r"<<END|\n.*'$|\"\n", block) else re.sub(r"(?m)^(?=.)", "  ", block)


@cache
def compose_scripts(first: int, count: int) -> tuple[Kind, ...]:
    """Return `count` scripts, starting from a number."""
    return tuple(Composer(number).compose() for number in range(first, first + count))
