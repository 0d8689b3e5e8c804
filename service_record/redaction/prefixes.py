"""Find the prefixes that loggers write before their messages. Pure."""

import re
from typing import Final

_PREFIX: Final = re.compile(
    rb"(?:<\d{1,3}>)?(?:"
    # syslog of RFC 5424
    rb"1 \d{4}-\d\d-\d\dT\S+ \S+ \S+ \S+ \S+ (?:-|\[[^\]]*\]) "
    # syslog and journalctl: time, host, program
    rb"|(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*) "
    rb"(?!(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR) )[A-Za-z0-9_.:-]+ [^\s:\[\]=\"'{]+(?:\[\d+\])?: "
    # container logs (CRI)
    rb"|\d{4}-\d\d-\d\dT\S+ (?:stdout|stderr) [FP] "
    # klog
    rb"|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [A-Za-z0-9_.-]+:\d+\] "
    # cloud-init and other Python programs
    rb"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S* - \S+\[[A-Z]+\]: "
    # only a time; the kernel's time in seconds
    rb"|\[? *\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*\]? (?:[+-]\d{4} )?"
    rb"(?:(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR)[: ] ?)?"
    rb"|\[ *\d+\.\d+\] "
    # the trace of set -x; journalctl -o export
    rb"|\++ |MESSAGE=)"
)
_MAX_PREFIXES: Final = 4


def prefix_end(text: bytes, start: int = 0) -> int:
    """Return the offset of the message after up to four logger prefixes."""
    for _ in range(_MAX_PREFIXES):
        match = _PREFIX.match(text, start)
        if match is None:
            break
        start = match.end()
    return start
