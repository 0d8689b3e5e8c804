"""Keep the last lines that a command prints, and deliver its output unchanged.

How an output stream is watched depends on its kind:

- A regular file is not touched. Its end is read afterwards.
- A pipe, a local stream socket and /dev/null are replaced by a pipe, a terminal by a pseudo-terminal. A relay
  copies from there to the original stream.
- Anything else (a closed descriptor, a datagram socket, /dev/kmsg) is not touched and not watched.

The relay is a process and not a thread of `run`: a daemon that the command leaves behind keeps writing after
the command and `run` have ended, and must not meet a broken pipe. The relay ends when the last writer has
closed.
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

_LINES: Final = 3  # as many as from the journal under systemd
_TAIL_BYTES: Final = 4096
_BUFFER_BYTES: Final = 1 << 15
_PIPE_BYTES: Final = 1 << 18  # measured: more leaves the caches, less takes more system calls
_STANDARD_ERROR: Final = 2
_TERMINAL_QUIET_MS: Final = 20
"""The kernel brings text from one end of a pseudo-terminal to the other a moment after it was written."""
_MAX_SETTLE_SECONDS: Final = 1.0
"""How long a process that the command left behind can delay the end of `run` by writing without a pause."""
_CONTROL_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_FileAction: TypeAlias = tuple[int, int, int]


class CommandOutput:
    """Watches standard output and standard error of one command."""

    def __init__(self) -> None:
        self._files: list[_WatchedFile] = []
        self._streams: list[_Stream] = []
        self._control = self._answer = -1
        try:
            self._open_streams()
            self._start_relay()
        except (OSError, termios.error):
            # No descriptor, process or pseudo-terminal is left. The command runs without being watched.
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
            elif identity in streams:  # one pipe for both keeps the order of their texts
                streams[identity].descriptors.append(descriptor)
            elif _can_be_replaced(descriptor, status):
                streams[identity] = _Stream(descriptor)
        self._files = list(files.values())
        self._streams = list(streams.values())

    def _start_relay(self) -> None:
        if not self._streams:
            return
        ended, self._control = os.pipe()
        self._answer, answer = os.pipe()
        # Before any thread: a fork copies the calling thread only. Signals are blocked by now, and stay so in
        # the relay, which gets those of the process group as well.
        relay = os.fork()
        if relay == 0:
            try:
                _Relay(self._streams, ended, answer).run()
            finally:
                os._exit(0)
        os.close(ended)
        os.close(answer)

    @property
    def file_actions(self) -> list[_FileAction]:
        """The `file_actions` of `os.posix_spawn` that give the command its streams."""
        return [
            (os.POSIX_SPAWN_DUP2, stream.writer, descriptor)
            for stream in self._streams
            for descriptor in stream.descriptors
        ]

    def command_started(self) -> None:
        """Close this process's copies of the streams, so that they end when the command closes its own."""
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
        """Tell the relay that the command has ended, so that it reports when everything is delivered."""
        if self._control >= 0:
            os.close(self._control)

    def is_delivered(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; return whether all output has reached the original streams."""
        if self._answer < 0:
            return True
        poll = select.poll()
        poll.register(self._answer, select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def last_lines(self) -> str | None:
        """Return the last lines of both streams, oldest first, once they are delivered."""
        lines: list[bytes] = []
        for file in self._files:
            lines += file.last_lines()
        relayed = b""
        while self._answer >= 0 and (part := os.read(self._answer, _TAIL_BYTES)):
            relayed += part
        if any(file.descriptor == _STANDARD_ERROR for file in self._files):
            lines = [*relayed.split(b"\n"), *lines]  # standard error last: errors are there
        else:
            lines += relayed.split(b"\n")
        readable = [text for text in map(_readable, lines) if text.strip()]
        return "\n".join(readable[-_LINES:]) or None


def _can_be_replaced(descriptor: int, status: os.stat_result) -> bool:
    """Return whether a pipe or a pseudo-terminal in place of the stream makes no difference to a program."""
    if stat.S_ISSOCK(status.st_mode):
        import socket  # rarely

        with socket.socket(fileno=os.dup(descriptor)) as own:
            return own.family == socket.AF_UNIX and own.type == socket.SOCK_STREAM
    is_null = stat.S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev
    return stat.S_ISFIFO(status.st_mode) or is_null or os.isatty(descriptor)


class _Stream:
    """A stream that is relayed: `target` is the original one, the command writes to `writer`."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.descriptors = [target]
        self.is_settled = False
        self.can_splice = not os.isatty(target)
        self.terminal_name: str | None = None
        if not self.can_splice:
            # The pseudo-terminal has the same modes, but output is processed only once, by the real terminal.
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
        with suppress(OSError):  # by its name, because only the relay may keep a pseudo-terminal open
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

    def last_lines(self) -> list[bytes]:
        """Return the last lines written since the command started; none where the file must not be read."""
        try:
            end = self._end()
            start = max(self._start, end - _TAIL_BYTES)
            with Path(f"/proc/self/fd/{self.descriptor}").open("rb") as file:
                return os.pread(file.fileno(), max(end - start, 0), start).split(b"\n")
        except OSError:
            return []


class _Relay:
    """The process that copies. It has a thread for each stream, so that a blocked one delays no other."""

    def __init__(self, streams: Sequence[_Stream], ended: int, answer: int) -> None:
        self._streams = streams
        self._ended = ended
        self._answer = answer
        self._unsettled = len(streams)
        self._lines: deque[bytes] = deque(maxlen=_LINES)
        self._partial: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def run(self) -> None:
        """Copy until the last writer has closed."""
        self._release_everything_else()
        first, *others = self._streams
        threads = [threading.Thread(target=self._copy, args=[stream]) for stream in others]
        for thread in threads:
            thread.start()
        self._copy(first)
        for thread in threads:
            thread.join()

    def _release_everything_else(self) -> None:
        """Close the standard input, locks and others, and leave the directory: the relay may outlive them."""
        for stream in self._streams:
            os.close(stream.writer)
        kept = {self._ended, self._answer}
        kept.update(descriptor for stream in self._streams for descriptor in (stream.reader, stream.target))
        for path in list(Path("/proc/self/fd").iterdir()):
            if int(path.name) not in kept:
                with suppress(OSError):
                    os.close(int(path.name))
        os.chdir("/")
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def _copy(self, stream: _Stream) -> None:
        """Copy one stream, and report once that everything the command wrote is copied."""
        with suppress(OSError):  # a broken pipe: the reader of the original stream is gone
            self._copy_until_end(stream)
        os.close(stream.reader)  # before anything else, so that the next write gets SIGPIPE
        self._settle(stream)

    def _copy_until_end(self, stream: _Stream) -> None:
        poll = select.poll()
        poll.register(stream.reader, select.POLLIN)
        poll.register(stream.target, 0)  # an error shows that its reader is gone, before anything is written
        poll.register(self._ended, 0)
        buffer = bytearray(_BUFFER_BYTES)
        modes = _input_modes(stream.reader) if stream.terminal_name else None
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
                _splice_all_but_the_end(stream)
                count = os.readv(stream.reader, [buffer])
                if not count:
                    return
                with memoryview(buffer)[:count] as data:
                    self._keep(stream, data)
                    _write(stream.target, data)
            elif self._ended in ready:
                continue  # look once more, without waiting for more than is there
            if until is not None and (stream.reader not in ready or time.monotonic() >= until):
                self._settle(stream)
                quiet_ms, until = None, None

    def _keep(self, stream: _Stream, data: memoryview) -> None:
        """Remember the last whole lines of both streams in the order in which they ended."""
        text = bytes(data[-_TAIL_BYTES:])
        with self._lock:
            if len(data) < _TAIL_BYTES:
                text = self._partial.get(stream.target, b"") + text
            # Bounded, because a chunk may have a thousand lines, but some of the last ones may be blank.
            *lines, partial = text.rsplit(b"\n", 4 * _LINES)
            self._partial[stream.target] = partial[-_TAIL_BYTES:]
            self._lines.extend(line[-_TAIL_BYTES:] for line in lines if line.strip())

    def _settle(self, stream: _Stream) -> None:
        """Send the last lines if everything is delivered on all streams."""
        with self._lock:
            if stream.is_settled:
                return
            stream.is_settled = True
            self._unsettled -= 1
            if self._unsettled == 0:
                lines = [*self._lines, *self._partial.values()]
                with suppress(OSError):
                    _write(self._answer, memoryview(b"\n".join(lines)))
                os.close(self._answer)


def _splice_all_but_the_end(stream: _Stream) -> None:
    """Move a large amount of output without copying it. Only its end is left for `_keep` to look at."""
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
            stream.can_splice = False  # not into this kind of stream


def _write(descriptor: int, data: memoryview) -> None:
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            _wait_until_writable(descriptor)


def _wait_until_writable(descriptor: int) -> None:
    """Wait for a stream that another process has made non-blocking."""
    writable = select.poll()
    writable.register(descriptor, select.POLLOUT)
    writable.poll()


def _input_modes(terminal: int) -> list[object] | None:
    try:
        modes = termios.tcgetattr(terminal)
    except termios.error:
        return None
    return [modes[0], modes[3], modes[6]]


def _copy_input_modes(stream: _Stream, last: list[object]) -> list[object]:
    """Apply the modes that the command set on its pseudo-terminal to the real terminal, which has the keys.

    ncurses sets the modes of the terminal that it writes to.
    """
    modes = _input_modes(stream.reader)
    if modes is None or modes == last:
        return last
    with suppress(termios.error):
        all_modes = termios.tcgetattr(stream.target)
        all_modes[0], all_modes[3], all_modes[6] = modes
        termios.tcsetattr(stream.target, termios.TCSANOW, all_modes)
    return modes


def _readable(line: bytes) -> str:
    """Return a line as a terminal shows it: without colours, and only what a progress bar came to last."""
    text = _CONTROL_SEQUENCE.sub("", line.decode(errors="replace"))
    return text.rstrip("\r").rpartition("\r")[2].replace("\0", "")
