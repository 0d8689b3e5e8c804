"""The signature of a failure: its message without numbers, ids, times and addresses. Pure."""

import re
from functools import lru_cache
from typing import Final

from service_record.history.outcome import Run

_MAX_CHARACTERS: Final = 4096
_VARYING: Final = re.compile(
    r"""
      (?P<time>     (?<!\w)\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?(?:Z|\ ?[+-]\d\d:?\d\d)?
                  | (?<!\w)[A-Z][a-z]{2}\ {1,2}\d{1,2}\ \d\d:\d\d:\d\d
                  | (?<![\w:])\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?![\w:])
                  | (?<![\w.])(?:\d{1,9}(?:\.\d{1,9})?(?:ms|us|µs|ns|h|m|s)){1,4}(?!\w) )
    | (?P<address>  (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5}|/\d{1,2})?(?![\w.])
                  | (?<![\w:])\[?(?=[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{2,39}
                    \]?(?::\d{1,5})?(?!\w) )
    | (?P<id>       (?<!\w)[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?!\w)
                  | (?<!\w)(?:0x)?(?=[0-9A-Fa-f]{0,63}\d)(?=\d{0,63}[A-Fa-f])[0-9A-Fa-f]{7,128}(?!\w) )
    | (?P<disk>     (?<=/dev/)(?:[svh]d|xvd)[a-z]{1,2}\d{0,3}(?![\w-])
                  | (?<![\w-])(?!(?:sdk|sdn|hdd|md5)\b)
                    (?:(?:[svh]d|xvd)[a-z]\d{0,3}
                      |(?:nvme\d{1,3}n\d{1,3}|mmcblk\d{1,3}|loop\d{1,4}|md\d{1,4})(?:p\d{1,3})?
                      |dm-\d{1,4})(?![\w-]) )
    | (?P<number>   (?<![A-Za-z\d])\d++(?:[.,]\d++)*+
                  | (?<=[A-Za-z])\d++(?:[.,]\d++)*+(?!-?[A-Za-z]) )  # not within a name: grub2-install, k8s
    """,
    re.VERBOSE | re.ASCII,
)
"""Each alternative is bounded or begins only where a word does, so that the whole is linear in the text."""


@lru_cache(maxsize=1024)  # what fails again mostly says the same
def signature(message: str) -> str:
    """The message with `<time>`, `<address>`, `<id>`, `<disk>` and `<number>` for what differs each time."""
    return _VARYING.sub(lambda found: f"<{found.lastgroup}>", message[-_MAX_CHARACTERS:])


def message_signature(run: Run) -> str:
    """That of what a run said last."""
    return signature(run.facts.message or "")
