"""Write a history as metrics for the textfile collector of Prometheus' node_exporter. Pure.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from collections.abc import Iterator
from typing import Final

from service_record.history import History
from service_record.history.outcome import Outcome, Run

_METRICS: Final = {
    "service_record_last_run": "1 for the outcome of the latest attempt of a service, 0 for the others.",
    "service_record_runs": "Runs of a service in its record, by outcome.",
    "service_record_last_run_attempt": "Number of the latest attempt within its boot.",
    "service_record_last_run_start_time_seconds": "When the latest attempt started, in seconds since 1970.",
    "service_record_last_run_end_time_seconds": "When the latest attempt ended, in seconds since 1970.",
    "service_record_last_run_duration_seconds": "How long the latest attempt took.",
    "service_record_stage_duration_seconds": "The longest execution of a stage in the latest attempt.",
}


def to_prometheus(history: History) -> Iterator[bytes]:
    """Yield the metrics of the latest attempt of each service. Unknown values have no sample."""
    samples: dict[str, list[str]] = {name: [] for name in _METRICS}
    for service in history.services:
        if not service.runs:
            continue
        run = service.attempts[-1]
        labels = {"service": service.name}
        for outcome in Outcome:
            own = labels | {"outcome": outcome.value}
            is_last = 1 if run.outcome is outcome else 0
            samples["service_record_last_run"].append(_format_sample(own, is_last))
            number = sum(each.outcome is outcome for each in service.attempts)
            samples["service_record_runs"].append(_format_sample(own, number))
        for name, value in _facts(run):
            if value is not None:
                samples[name].append(_format_sample(labels, value))
        longest: dict[str, float] = {}
        for stage in run.stages:
            if stage.duration is not None:
                longest[stage.name] = max(stage.duration, longest.get(stage.name, 0.0))
        samples["service_record_stage_duration_seconds"] += [
            _format_sample(labels | {"stage": stage}, seconds) for stage, seconds in longest.items()
        ]
    for name, lines in samples.items():
        if lines:
            yield f"# HELP {name} {_METRICS[name]}\n# TYPE {name} gauge\n".encode()
            yield "".join(f"{name}{line}\n" for line in lines).encode()


def _facts(run: Run) -> Iterator[tuple[str, float | None]]:
    yield "service_record_last_run_attempt", run.attempt
    yield "service_record_last_run_start_time_seconds", run.started.timestamp() if run.started else None
    yield "service_record_last_run_end_time_seconds", run.ended.timestamp() if run.ended else None
    yield "service_record_last_run_duration_seconds", run.duration


def _format_sample(labels: dict[str, str], value: float) -> str:
    """Format labels and value. Backslash, quote and newline are escaped in labels."""
    texts = (
        name + '="' + text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") + '"'
        for name, text in labels.items()
    )
    return f"{{{','.join(texts)}}} {value:.15g}"
