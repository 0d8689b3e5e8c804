"""The rules of what Ignition itself and the kernel are told."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from service_record.deploy.ignition.fault import Fault, quoted
from service_record.deploy.ignition.places import at, twice


def faults_of_settings(config: dict[str, Any], _minor: int) -> Iterator[Fault]:
    for name in ("httpResponseHeaders", "httpTotal"):
        seconds = at(config, f"ignition.timeouts.{name}") or 0
        if seconds < 0:
            yield Fault(
                f"ignition.timeouts.{name}", f"{seconds} is no time; it is in seconds, 0 for no limit"
            )
    for name in ("httpProxy", "httpsProxy"):
        proxy = at(config, f"ignition.proxy.{name}")
        if proxy and urlsplit(proxy).scheme not in {"http", "https"}:
            yield Fault(f"ignition.proxy.{name}", "is no URL of http or https")
    hosts = enumerate(at(config, "ignition.proxy.noProxy") or [])
    yield from twice([(f"ignition.proxy.noProxy[{number}]", host) for number, host in hosts], "host")
    arguments: list[tuple[str, object]] = []
    for name in ("shouldExist", "shouldNotExist"):
        for number, argument in enumerate(at(config, f"kernelArguments.{name}") or []):
            where = f"kernelArguments.{name}[{number}]"
            if not argument.strip() or "\n" in argument:
                yield Fault(where, f"{quoted(argument)} is no argument of a kernel")
            arguments.append((where, argument))
    yield from twice(arguments, "argument")
