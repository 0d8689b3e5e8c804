"""Whom TLS trusts here: the system's certificate authorities, wherever the system keeps them."""

import ssl
from contextlib import suppress
from typing import Final

_AUTHORITIES: Final = (
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # RHEL, RHCOS, Fedora
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu
    "/etc/ssl/ca-bundle.pem",  # SUSE
)


def system_trust() -> ssl.SSLContext:
    """A client's context. The authorities are found where OpenSSL does not look, too: ours may come from
    another system.
    """
    context = ssl.create_default_context()
    known = ssl.get_default_verify_paths()
    if known.cafile or known.capath:
        return context
    for path in _AUTHORITIES:
        with suppress(OSError, ssl.SSLError):
            context.load_verify_locations(cafile=path)
            break
    return context
