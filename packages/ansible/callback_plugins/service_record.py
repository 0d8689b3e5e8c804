"""A callback plugin of Ansible: a playbook is a service, each play is a stage, each task a stage of its play.

It needs the library `service_record` in the environment of Ansible. docs/ansible.md says how to enable it.
"""

import importlib
import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

library: Any = None
missing = ""
try:
    # Not this file: Ansible loads that under another name.
    library = importlib.import_module("service_record")
except ImportError as error:
    missing = f"nothing is recorded: {error}. Install service-record into the environment of Ansible."

DOCUMENTATION = """
name: service_record
type: notification
short_description: Record plays and tasks with service-record
description:
  - Records a playbook as a service, plays and tasks as its stages.
  - The record is named after $SERVICE_NAME, else after the playbook. It is in $SERVICE_RECORDS_DIR, else in
    /var/log/openshift.
requirements:
  - enable it in callbacks_enabled
  - the Python library service_record
"""


class CallbackModule(CallbackBase):
    """Record plays and tasks.

    The strategy `linear` runs a task on all hosts before it starts the next one, so a stage ends there. With
    another strategy a host may still work on the task, so its stage stays open until the play ends.
    """

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "service_record"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._run: Any = None
        self._play: Any = None
        self._is_linear = True
        # The open stages of tasks, and their failures, by the id of the task.
        self._tasks: dict[str, Any] = {}
        self._task_errors: dict[str, dict[str, tuple[str, str]]] = {}
        # Host -> message and place of its failure, in the play and in the playbook.
        self._play_errors: dict[str, tuple[str, str]] = {}
        self._all_errors: dict[str, tuple[str, str]] = {}
        if library is None:
            self._display.warning(f"service_record: {missing}")
            self.disabled = True

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Start the run."""
        name = os.environ.get("SERVICE_NAME") or Path(playbook._file_name or "ansible").stem
        self._run = library.service(name).start()

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Start the stage of a play; the one before has ended."""
        self._end_play()
        self._is_linear = play.strategy in {"linear", "debug"}
        self._play = self._run.stage(play.get_name().strip() or "play").start()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: ARG002
        """Start the stage of a task; the one before has ended."""
        self._start_task(task)

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        """Start the stage of a handler."""
        self._start_task(task)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Keep the message of a host whose task failed."""
        if ignore_errors:
            return
        self._fail(result, _message(result._result))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Keep the message of a host that Ansible could not reach."""
        if getattr(result._task, "ignore_unreachable", False):
            return
        self._fail(result, f"unreachable: {_message(result._result)}")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """End the run. A failure that a `rescue` section handled is none of the playbook."""
        self._end_play()
        lost = sorted(host for host in stats.processed if stats.failures.get(host) or stats.dark.get(host))
        errors = {host: self._all_errors.get(host, ("failed", "")) for host in lost}
        self._run.end(_failure(errors))

    def _start_task(self, task: Any) -> None:
        if self._is_linear:
            self._end_tasks()
        if task._uuid not in self._tasks:
            self._tasks[task._uuid] = self._play.stage(task.get_name().strip() or "task").start()

    def _fail(self, result: Any, message: str) -> None:
        host, error = result._host.get_name(), (message, _place(result._task))
        self._task_errors.setdefault(result._task._uuid, {})[host] = error
        self._all_errors[host] = error
        if not _is_rescued(result._task):
            self._play_errors[host] = error

    def _end_tasks(self) -> None:
        for task_id, stage in reversed(self._tasks.items()):
            stage.end(_failure(self._task_errors.get(task_id, {})))
        self._tasks, self._task_errors = {}, {}

    def _end_play(self) -> None:
        self._end_tasks()
        if self._play is not None:
            self._play.end(_failure(self._play_errors))
        self._play, self._play_errors = None, {}


def _failure(errors: dict[str, tuple[str, str]]) -> Any:
    """Return the failure of these hosts; None if there is none."""
    if not errors:
        return None
    message = "\n".join(f"{host}: {text}" for host, (text, _) in errors.items())
    # Playbook, play and task end with the same place: readers then blame the task.
    return library.Failure(message=message, error_line=[*errors.values()][-1][1] or None)


def _message(result: Any) -> str:
    """Return why a task failed. Ansible has removed everything else from the result of a `no_log` task."""
    texts = [str(result.get(name) or "").strip() for name in ("stderr", "module_stderr", "msg", "censored")]
    failed = [_message(item) for item in result.get("results") or () if item.get("failed")]
    return "\n".join(dict.fromkeys(filter(None, [*failed, *texts]))) or "failed"


def _place(task: Any) -> str:
    """Return `LINE FUNCTION FILE` of a task, or nothing."""
    path, _, line = (task.get_path() or "").rpartition(":")
    return f"{line} main {path}" if path and line.isdigit() else ""


def _is_rescued(task: Any) -> bool:
    """Return whether the task is in a block that has a `rescue` section: the play goes on after it."""
    inner, outer = task, task._parent
    while outer is not None:
        if any(one._uuid == inner._uuid for one in getattr(outer, "block", ())) and outer.rescue:
            return True
        inner, outer = outer, outer._parent
    return False
