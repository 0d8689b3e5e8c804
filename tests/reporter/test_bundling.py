"""Bundles as the reporter makes them."""

from datetime import UTC, datetime
from pathlib import Path

from service_record.redaction.types import Secret
from service_record.reporter.bundling import make_bundle
from service_record.reporter.gather.gathering import Context

PASSWORD = "xK4-wq9Zr71"


def test_secret_in_the_report_of_redaction_is_found(tmp_path: Path) -> None:
    """redaction.json is not masked, and names files that could not be read."""
    connections = tmp_path / "etc/NetworkManager/system-connections"
    connections.mkdir(parents=True)
    (connections / f"{PASSWORD}.nmconnection").write_bytes(b"#" * (9 << 20))  # too large to be read
    bundled = make_bundle(
        tmp_path,
        (),
        Context(root=tmp_path),
        verdict="",
        at=datetime.now(UTC),
        secrets=[Secret("wifi-password", PASSWORD.encode())],
    )
    assert bundled.leak is not None
    assert bundled.leak.kind == "wifi-password"
