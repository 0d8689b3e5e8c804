"""Durations as people type them: `--timeout 10m`."""

import click

from service_record.duration import parse_duration


class Duration(click.ParamType[float]):
    """Seconds."""

    name = "duration"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not isinstance(value, str):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
