"""Keep the last lines that a command prints, and deliver its output unchanged.

The method depends on the kind of the stream:

- A regular file stays as it is. Its end is read when the command has ended.
- A pipe, a local stream socket or /dev/null is replaced by a pipe, and a terminal by a pseudo-terminal. A
  relay copies the output to the original stream.
- Anything else (a closed descriptor, a datagram socket, /dev/kmsg) stays as it is, and is not watched.

The relay is a process, not a thread of `run`: a daemon that the command leaves behind may write after the
command and `run` have ended, and must not get a broken pipe. The relay ends when the last writer has closed
the stream.
"""

import errno
import fcntl
import os
import re
import select
import signal
import stat
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

_LINES: Final = 3  # under systemd, the same number of lines is taken from the journal
LIVE_LINES: Final = 100
"""Number of last lines that can be read while the command runs.

It is more than a private key has, because a key is recognized only by its first or last line.
"""
_LIVE_LINE_BYTES: Final = 1000
_LIVE_TAIL_BYTES: Final = 1 << 14
_LIVE_SECONDS: Final = 1.0
_TAIL_BYTES: Final = 4096
_BUFFER_BYTES: Final = 1 << 15
_PIPE_BYTES: Final = (
    1 << 18
)  # measured: a larger pipe exceeds the CPU caches, a smaller one needs more system calls
_STANDARD_ERROR: Final = 2
_TERMINAL_QUIET_MS: Final = 20
"""The kernel moves text through a pseudo-terminal with a delay. After this pause, all text has arrived."""
_MAX_SETTLE_SECONDS: Final = 1.0
"""Longest delay of the end of `run` by a process that the command left behind and that continues to write."""
_CONTROL_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_FileAction: TypeAlias = tuple[int, int, int]


class CommandOutput:
    """Watches standard output and standard error of one command."""

    def __init__(self, *, is_live: bool = False) -> None:
        """With `is_live`, a process that is forked from this one can read `live_lines`."""
        self._files: list[_WatchedFile] = []
        self._streams: list[_Stream] = []
        self._control = self._answer = self.live = -1
        self._relayed = b""
        try:
            self._open_streams()
            self._start_relay(is_live=is_live)
        except (OSError, termios.error):
            # The system is out of descriptors, processes or pseudo-terminals. Run the command unwatched.
            self._close_streams()
            self._streams = []
            self._answer = -1

    def _open_streams(self) -> None:
        files: dict[tuple[int, int, int], _WatchedFile] = {}
        streams: dict[tuple[int, int, int], _Stream] = {}
        for descriptor in (1, _STANDARD_ERROR):
            try:
                status = os.fstat(descriptor)
            except OSError:
                continue
            identity = status.st_dev, status.st_ino, status.st_rdev
            if stat.S_ISREG(status.st_mode):
                files[identity] = _WatchedFile(descriptor)
            elif identity in streams:  # both go to the same place: one pipe keeps the order of their output
                streams[identity].descriptors.append(descriptor)
            elif _can_be_replaced(descriptor, status):
                streams[identity] = _Stream(descriptor)
        self._files = list(files.values())
        self._streams = list(streams.values())

    def _start_relay(self, *, is_live: bool) -> None:
        if not self._streams:
            return
        live = -1
        if is_live:
            import socket  # rarely needed, and slow to import

            # SOCK_SEQPACKET keeps messages whole. The relay drops a message if the buffer is full.
            own, of_relay = socket.socketpair(type=socket.SOCK_SEQPACKET)
            self.live, live = own.detach(), of_relay.detach()
        ended, self._control = os.pipe()
        self._answer, answer = os.pipe()
        # Fork before any thread starts, because a fork copies only the calling thread. Signals are blocked
        # here and stay blocked in the relay, which also gets those of the process group.
        relay = os.fork()
        if relay == 0:
            try:
                _Relay(self._streams, ended, answer, live).run()
            finally:
                os._exit(0)
        os.close(ended)
        os.close(answer)
        if live >= 0:
            os.close(live)

    @property
    def file_actions(self) -> list[_FileAction]:
        """The `file_actions` of `os.posix_spawn` that give the command its streams."""
        return [
            (os.POSIX_SPAWN_DUP2, stream.writer, descriptor)
            for stream in self._streams
            for descriptor in stream.descriptors
        ]

    def command_started(self) -> None:
        """Close this process's copies of the pipes, so that they end when the command closes its copies."""
        self._close_streams()

    def _close_streams(self) -> None:
        for stream in self._streams:
            for descriptor in (stream.reader, stream.writer):
                with suppress(OSError):
                    os.close(descriptor)

    def window_changed(self) -> None:
        """Give pseudo-terminals the size of the terminal. The command needs a SIGWINCH after this."""
        for stream in self._streams:
            stream.copy_window_size()

    def command_ended(self) -> None:
        """Notify the relay that the command has ended. It then reports when all output is delivered."""
        if self._control >= 0:
            os.close(self._control)

    def is_delivered(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds. Return True if all output has reached the original streams."""
        if self._answer < 0:
            return True
        poll = select.poll()
        poll.register(self._answer, select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def last_lines(self) -> str | None:
        """Return the last lines of both streams, oldest first. Blocks until they are delivered."""
        relayed = b""
        while self._answer >= 0 and (part := os.read(self._answer, _TAIL_BYTES)):
            relayed += part
        return "\n".join(self._readable_lines(relayed)[-_LINES:]) or None

    @property
    def live_descriptors(self) -> list[int]:
        """The descriptors that `live_lines` needs."""
        return [*(file.descriptor for file in self._files), *([self.live] if self.live >= 0 else [])]

    def live_lines(self) -> list[str]:
        """Return the lines that the command has printed last so far, oldest first."""
        with suppress(OSError):  # no message is waiting, or the relay has ended
            os.set_blocking(self.live, False)
            while message := os.read(self.live, LIVE_LINES * (_LIVE_LINE_BYTES + 1)):
                self._relayed = message
        return self._readable_lines(self._relayed, _LIVE_TAIL_BYTES)[-LIVE_LINES:]

    def _readable_lines(self, relayed: bytes, tail_bytes: int = _TAIL_BYTES) -> list[str]:
        lines: list[bytes] = []
        for file in self._files:
            lines += file.last_lines(tail_bytes)
        if any(file.descriptor == _STANDARD_ERROR for file in self._files):
            lines = [*relayed.split(b"\n"), *lines]  # standard error last: it has the errors
        else:
            lines += relayed.split(b"\n")
        return [text for text in map(readable_line, lines) if text.strip()]


def _can_be_replaced(descriptor: int, status: os.stat_result) -> bool:
    """Return True if a program cannot notice that a pipe or pseudo-terminal replaces the stream."""
    if stat.S_ISSOCK(status.st_mode):
        import socket  # rarely needed, and slow to import

        with socket.socket(fileno=os.dup(descriptor)) as own:
            return own.family == socket.AF_UNIX and own.type == socket.SOCK_STREAM
    is_null = stat.S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev
    return stat.S_ISFIFO(status.st_mode) or is_null or os.isatty(descriptor)


class _Stream:
    """A relayed stream. The command writes to `writer`, and the relay copies from `reader` to `target`."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.descriptors = [target]
        self.is_settled = False
        self.can_splice = not os.isatty(target)
        self.terminal_name: str | None = None
        if not self.can_splice:
            # The same modes, except that only the real terminal processes output: twice would double the CRs.
            modes = termios.tcgetattr(target)
            modes[1] &= ~termios.OPOST
            self.reader, self.writer = os.openpty()
            termios.tcsetattr(self.writer, termios.TCSANOW, modes)
            self.terminal_name = os.ttyname(self.writer)
            self.copy_window_size()
        else:
            self.reader, self.writer = os.pipe()
            with suppress(OSError):
                fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def copy_window_size(self) -> None:
        if self.terminal_name is None:
            return
        with suppress(OSError):  # opened by name: only the relay may keep the pseudo-terminal open
            size = fcntl.ioctl(self.target, termios.TIOCGWINSZ, bytes(8))
            terminal = os.open(self.terminal_name, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
            finally:
                os.close(terminal)


class _WatchedFile:
    """A regular file that the command writes to directly."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._start = self._end()

    def _end(self) -> int:
        is_appended = fcntl.fcntl(self.descriptor, fcntl.F_GETFL) & os.O_APPEND
        if is_appended:
            return os.fstat(self.descriptor).st_size
        return os.lseek(self.descriptor, 0, os.SEEK_CUR)

    def last_lines(self, tail_bytes: int) -> list[bytes]:
        """Return the last lines written since the command started; none if the file cannot be read."""
        try:
            end = self._end()
            start = max(self._start, end - tail_bytes)
            with Path(f"/proc/self/fd/{self.descriptor}").open("rb") as file:
                return os.pread(file.fileno(), max(end - start, 0), start).split(b"\n")
        except OSError:
            return []


class _Relay:
    """The process that copies the output. It has one thread for each stream, so no stream delays another."""

    def __init__(self, streams: Sequence[_Stream], ended: int, answer: int, live: int) -> None:
        """`live` is a socket that gets the last lines whenever they have changed; -1 for none."""
        self._streams = streams
        self._ended = ended
        self._answer = answer
        self._live = live
        self._tail_bytes = _TAIL_BYTES if live < 0 else _LIVE_TAIL_BYTES
        self._published: list[bytes] = []
        self._unsettled = len(streams)
        self._lines: deque[bytes] = deque(maxlen=_LINES if live < 0 else LIVE_LINES)
        self._partial: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def run(self) -> None:
        """Copy all streams until their last writers have closed them."""
        self._release_everything_else()
        if self._live >= 0:
            threading.Thread(target=self._publish_until_settled, daemon=True).start()
        first, *others = self._streams
        threads = [threading.Thread(target=self._copy, args=[stream]) for stream in others]
        for thread in threads:
            thread.start()
        self._copy(first)
        for thread in threads:
            thread.join()

    def _release_everything_else(self) -> None:
        """Close all other descriptors and change to `/`, because the relay may outlive the command.

        Otherwise it would keep locks, standard input and the file system of the directory in use.
        """
        for stream in self._streams:
            os.close(stream.writer)
        kept = {self._ended, self._answer, self._live}
        kept.update(descriptor for stream in self._streams for descriptor in (stream.reader, stream.target))
        leave_everything_but(kept)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def _copy(self, stream: _Stream) -> None:
        """Copy one stream until its end, and settle it."""
        with suppress(OSError):  # a broken pipe: the reader of the original stream has closed it
            self._copy_until_end(stream)
        os.close(stream.reader)  # before anything else, so that the next write of the command gets SIGPIPE
        self._settle(stream)

    def _copy_until_end(self, stream: _Stream) -> None:
        poll = select.poll()
        poll.register(stream.reader, select.POLLIN)
        poll.register(stream.target, 0)  # reports that its reader has closed it, even before a write
        poll.register(self._ended, 0)
        buffer = bytearray(_BUFFER_BYTES)
        # Read them from the real terminal: the command may have changed those of its own terminal already.
        modes = _read_input_modes(stream.target) if stream.terminal_name else None
        quiet_ms, until = None, None
        while True:
            ready = dict(poll.poll(quiet_ms))
            if self._ended in ready:
                poll.unregister(self._ended)
                quiet_ms = _TERMINAL_QUIET_MS if stream.terminal_name else 0
                until = time.monotonic() + _MAX_SETTLE_SECONDS
            if modes is not None:
                modes = _copy_input_modes(stream, modes)
            if stream.target in ready:
                return
            if stream.reader in ready:
                if self._live < 0:  # splice(2) would skip lines that are needed to recognize secrets
                    _splice_all_but_the_end(stream)
                count = os.readv(stream.reader, [buffer])
                if not count:
                    return
                with memoryview(buffer)[:count] as data:
                    self._keep(stream, data)
                    _write_all(stream.target, data)
            elif self._ended in ready:
                continue  # poll again with `quiet_ms`: only output written before the end still counts
            if until is not None and (stream.reader not in ready or time.monotonic() >= until):
                self._settle(stream)
                quiet_ms, until = None, None

    def _keep(self, stream: _Stream, data: memoryview) -> None:
        """Keep the last whole lines of all streams, in the order in which the lines ended."""
        text = bytes(data[-self._tail_bytes :])
        with self._lock:
            if len(data) < self._tail_bytes:
                text = self._partial.get(stream.target, b"") + text
            # Split off only some lines, because a chunk may have thousands: a few more, as some may be blank.
            *lines, partial = text.rsplit(b"\n", 4 * (self._lines.maxlen or _LINES))
            self._partial[stream.target] = partial[-self._tail_bytes :]
            self._lines.extend(line[-self._tail_bytes :] for line in lines if line.strip())

    def _publish_until_settled(self) -> None:
        """Publish the last lines about once a second. A process left behind by the command is not watched."""
        while self._unsettled:
            time.sleep(_LIVE_SECONDS)
            with self._lock:
                self._publish()

    def _publish(self) -> None:
        lines = [*self._lines, *filter(None, self._partial.values())][-LIVE_LINES:]
        if lines == self._published:
            return
        with suppress(OSError):  # the reader is gone or too slow
            os.set_blocking(self._live, False)
            os.write(self._live, b"\n".join(map(_cut_long_line, lines)))
            self._published = lines

    def _settle(self, stream: _Stream) -> None:
        """Mark a stream as delivered. After the last one, send the last lines to `CommandOutput`."""
        with self._lock:
            if stream.is_settled:
                return
            stream.is_settled = True
            self._unsettled -= 1
            if self._unsettled == 0:
                if self._live >= 0:
                    self._publish()
                lines = [*list(self._lines)[-_LINES:], *self._partial.values()]
                with suppress(OSError):
                    _write_all(self._answer, memoryview(b"\n".join(lines)))
                os.close(self._answer)


def _splice_all_but_the_end(stream: _Stream) -> None:
    """Move a large amount of output without copying it, except for its end, which `_keep` needs."""
    while stream.can_splice:
        waiting = int.from_bytes(fcntl.ioctl(stream.reader, termios.FIONREAD, bytes(4)), sys.byteorder)
        if waiting <= _BUFFER_BYTES:
            return
        try:
            os.splice(stream.reader, stream.target, waiting - _TAIL_BYTES)
        except BlockingIOError:
            _wait_until_writable(stream.target)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            stream.can_splice = False  # splice(2) does not support this kind of target


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            _wait_until_writable(descriptor)


def _wait_until_writable(descriptor: int) -> None:
    """Wait until a full stream can be written to. Another process has set it to non-blocking."""
    writable = select.poll()
    writable.register(descriptor, select.POLLOUT)
    writable.poll()


def _read_input_modes(terminal: int) -> list[object] | None:
    """Return the input modes, local modes and special characters of a terminal; None if it is gone."""
    try:
        modes = termios.tcgetattr(terminal)
    except termios.error:
        return None
    return [modes[0], modes[3], modes[6]]


def _copy_input_modes(stream: _Stream, last: list[object]) -> list[object]:
    """Copy the input modes of the command's pseudo-terminal to the real terminal, which reads the keys.

    ncurses, for example, sets the modes of the terminal that it writes to. Returns the present modes.
    """
    modes = _read_input_modes(stream.reader)
    if modes is None or modes == last:
        return last
    with suppress(termios.error):
        all_modes = termios.tcgetattr(stream.target)
        all_modes[0], all_modes[3], all_modes[6] = modes
        termios.tcsetattr(stream.target, termios.TCSANOW, all_modes)
    return modes


def _cut_long_line(line: bytes) -> bytes:
    """Return the beginning of a long line, cut between two words: half a secret is not recognized."""
    if len(line) <= _LIVE_LINE_BYTES:
        return line
    return line[:_LIVE_LINE_BYTES].rpartition(b" ")[0]


def readable_line(line: bytes) -> str:
    """Return a line as a terminal shows it: without colours, and with the last state of a progress bar."""
    text = _CONTROL_SEQUENCE.sub("", line.decode(errors="replace"))
    return text.rstrip("\r").rpartition("\r")[2].replace("\0", "")


def leave_everything_but(kept: set[int]) -> None:
    """Close all other descriptors and change to `/`, so that a process can outlive the command."""
    for path in list(Path("/proc/self/fd").iterdir()):
        if int(path.name) not in kept:
            with suppress(OSError):
                os.close(int(path.name))
    os.chdir("/")
