"""Tells TLS which certificates to trust: those of the system, wherever it keeps them, and of a CA bundle."""

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final

_AUTHORITIES: Final = (
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # RHEL, RHCOS, Fedora
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu
    "/etc/ssl/ca-bundle.pem",  # SUSE
)


class FaultySettingError(Exception):
    """Nothing can be sent with such a setting; the text says which, and what to do."""

    def __init__(self, text: str, *, is_tls: bool = False) -> None:
        super().__init__(text)
        self.is_tls = is_tls


def system_trust() -> ssl.SSLContext:
    """Return a client's context. The authorities are found where OpenSSL does not look, too: ours may come
    from another system.
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


def trusted(ca_bundle: Path | None) -> ssl.SSLContext:
    """Return a client's context that trusts the system's authorities, and those of the bundle, if any.

    Raises FaultySettingError.
    """
    context = system_trust()
    # As the agents on the same hosts trust, Go's way: every certificate of the bundle, whether it calls
    # itself an authority or not, and also chains of service CAs that lack extensions which strict
    # verification asks for.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if ca_bundle is None:
        return context
    try:
        context.load_verify_locations(cafile=ca_bundle)
    except ssl.SSLError:
        why = "holds no certificates in PEM form, or a damaged one"
    except OSError as fault:
        why = fault.strerror or "cannot be read"
    else:
        return context
    raise FaultySettingError(
        f"{ca_bundle}: {why}; correct the CA bundle, nothing is sent without it", is_tls=True
    )
