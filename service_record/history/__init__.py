"""Build histories from entries: boots, runs, commands and stages, with their outcomes. Pure."""

from service_record.history.build import History, ServiceHistory, build_history

__all__ = ["History", "ServiceHistory", "build_history"]
