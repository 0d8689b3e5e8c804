"""`make months`: the abbreviated months of all locales, as `journalctl` prints them, in month_names.txt.

journalctl writes the `%b` of the host's locale: `Nov`, `ноя`, `févr.`, `11月`. The source is the locales of
glibc, which Debian has in the package `locales`.
"""

import re
from collections import defaultdict
from pathlib import Path
from typing import Final

from service_record.diagnosis.evidence import log_lines

LOCALES: Final = Path("/usr/share/i18n/locales")
_TRANSLATED: Final = "/usr/share/locale/{}/LC_MESSAGES/libc.mo"
PLACE: Final = Path(log_lines.__file__).with_name(log_lines.MONTH_NAMES)
_MONTHS: Final = 12


def month_names() -> str:
    """Return the text of the file: in each line a name and its number, as in `févr. 2`.

    A name that languages use for different months is that of a language into which glibc is translated. It is
    left out if there are two of them: `lis` is October in Croatian, and November in Polish.
    """
    numbers: dict[str, dict[int, bool]] = defaultdict(dict)
    for path in sorted(LOCALES.iterdir()):
        language = re.split("[@.]", path.name)[0]
        is_translated = path.name == "POSIX" or any(
            Path(_TRANSLATED.format(name)).exists() for name in (language, language.partition("_")[0])
        )
        for names in _read_months(path.read_text("utf-8", "replace")):
            for number, name in enumerate(names, 1):
                known = numbers[name.strip()]
                known[number] = known.get(number, False) or (is_translated and "@" not in path.name)
    lines = []
    for name, known in numbers.items():
        certain = [number for number, is_translated in known.items() if is_translated]
        usable = certain if len(known) > 1 else list(known)
        if len(usable) == 1 and not name.isdecimal():
            lines.append(f"{name} {usable[0]}\n")
    return "".join(sorted(lines))


def _read_months(text: str) -> list[list[str]]:
    """Return the names in the source of a locale; see locale(5). Some languages have a form after a day."""
    escape = re.search(r"(?m)^escape_char\s+(\S)", text)
    text = re.sub(re.escape(escape[1] if escape else "\\") + r"[ \t]*\n\s*", "", text)
    found = [
        re.findall(r'"([^"]*)"', values) for values in re.findall(r"(?m)^(?:abmon|ab_alt_mon)\s+(.*)$", text)
    ]
    return [
        [re.sub(r"<U([0-9A-F]{4,8})>", lambda match: chr(int(match[1], 16)), name) for name in names]
        for names in found
        if len(names) == _MONTHS
    ]


if __name__ == "__main__":
    PLACE.write_text(month_names())
