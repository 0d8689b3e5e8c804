"""Recognise error messages of the system, which are evidence wherever a secret might be. Pure."""

from typing import Final

_ERRORS: Final = tuple(
    (
        b".lib section in a.out corrupted|accessing a corrupted shared library|address already in use|"
        b"address family not supported by protocol|advertise error|argument list too long|"
        b"attempting to link in too many shared libraries|bad address|bad file descriptor|"
        b"bad font file format|bad message|block device required|broken pipe|"
        b"can not access a needed shared library|cannot allocate memory|"
        b"cannot assign requested address|cannot exec a shared library directly|"
        b"cannot send after transport endpoint shutdown|channel number out of range|"
        b"communication error on send|connection refused|connection reset by peer|"
        b"connection timed out|destination address required|device not a stream|"
        b"device or resource busy|directory not empty|disk quota exceeded|end of file|eof|"
        b"exchange full|exec format error|file descriptor in bad state|file exists|"
        b"file name too long|file too large|function not implemented|host is down|identifier removed|"
        b"illegal seek|inappropriate ioctl for device|input/output error|interrupted system call|"
        b"interrupted system call should be restarted|invalid argument|invalid cross-device link|"
        b"invalid exchange|invalid or incomplete multibyte or wide character|invalid request code|"
        b"invalid request descriptor|invalid slot|is a directory|is a named type file|"
        b"key has been revoked|key has expired|key was rejected by service|level 2 halted|"
        b"level 2 not synchronized|level 3 halted|level 3 reset|link has been severed|"
        b"link number out of range|machine is not on the network|message too long|multihop attempted|"
        b"name not unique on network|network dropped connection on reset|network is down|"
        b"network is unreachable|no anode|no buffer space available|no child processes|"
        b"no csi structure available|no data available|no locks available|no medium found|"
        b"no message of desired type|no route to host|no space left on device|no such device|"
        b"no such device or address|no such file or directory|no such process|"
        b"no xenix semaphores available|not a directory|not a xenix named type file|"
        b"numerical argument out of domain|numerical result out of range|object is remote|"
        b"operation already in progress|operation canceled|operation not permitted|"
        b"operation not possible due to rf-kill|operation not supported|operation now in progress|"
        b"out of streams resources|owner died|package not installed|permission denied|"
        b"protocol driver not attached|protocol error|protocol family not supported|"
        b"protocol not available|protocol not supported|protocol wrong type for socket|read-"
        b"only file system|remote address changed|remote i/o error|required key not available|"
        b"resource deadlock avoided|resource temporarily unavailable|rfs specific error|"
        b"socket operation on non-socket|socket type not supported|software caused connection abort|"
        b"srmount error|stale file handle|state not recoverable|streams pipe error|"
        b"structure needs cleaning|text file busy|timed out|timeout|timer expired|"
        b"too many levels of symbolic links|too many links|too many open files|"
        b"too many open files in system|too many references: cannot splice|too many users|"
        b"transport endpoint is already connected|transport endpoint is not connected|unexpected eof|"
        b"value too large for defined data type|wrong medium type"
    ).split(b"|")
)
"""The messages of strerror(3) on Linux, and messages about ends of files and timeouts, in lower case."""
_MAX_CODE_BYTES: Final = 5


def is_error(value: bytes) -> bool:
    """Return True for an error message of the system, or a code such as EOF."""
    is_code = value.isalpha() and value.isupper() and len(value) <= _MAX_CODE_BYTES
    return is_code or value.strip(b" .!?").lower().startswith(_ERRORS)
