"""The hosts that a collector knows as a page, as they were at one moment."""

from datetime import UTC, datetime
from xml.etree.ElementTree import Element

from service_record.display.fleet_table import Host, HostsAnswer, ink, seconds_of, sign, tally, with_builds
from service_record.display.html.frame import Content, Section, element, inked, page
from service_record.display.text import View, duration, moment

_COLUMNS = ("Machine", "Action", "Progress", "Last message", "Last update", "Total duration", "Verdict")
_CLUSTER_COLUMNS = ("Cluster", "State", "Nodes joined", "Since")


def hosts_html(answer: HostsAnswer, source: str, view: View) -> str:
    """Return the page of `hosts --output html`."""
    at = element("p", f"as of {_moment(answer.now, view)}", class_="faint")
    lead = [element("p", tally(answer), class_="strong"), at]
    heads = element("tr", *(element("th", name, scope="col") for name in _COLUMNS))
    rows = (_row(host, answer.now, view) for host in with_builds(answer).hosts)
    table = element("table", element("thead", heads), element("tbody", *rows))
    sections = [Section("hosts", "Hosts", [table])]
    if answer.clusters:
        sections.insert(0, Section("clusters", "Clusters", [_clusters(answer, view)]))
    return page(f"Hosts of {source}", lead, sections, view.now)


def _clusters(answer: HostsAnswer, view: View) -> Element:
    heads = element("tr", *(element("th", name, scope="col") for name in _CLUSTER_COLUMNS))
    rows = (
        element(
            "tr",
            element("th", cluster.label, scope="row"),
            element("td", cluster.status, element("div", cluster.reason, class_="faint")),
            element("td", f"{cluster.joined} of {cluster.hosts}"),
            element("td", "" if cluster.since is None else _moment(cluster.since, view)),
        )
        for cluster in answer.clusters
    )
    return element("table", element("thead", heads), element("tbody", *rows))


def _row(host: Host, now: float, view: View) -> Element:
    took = seconds_of(host, now)
    updated = "" if host.updated_at is None else _moment(host.updated_at, view)
    cells: list[Content] = [
        element("th", host.name, scope="row"),
        element("td", host.action),
        element("td", *_progress(host)),
        element("td", host.message),
        element("td", updated),
        element("td", "" if took is None else duration(took)),
        element("td", *inked(((f"{sign(host, view.glyphs)} {host.verdict}", ink(host)),)), _why(host)),
    ]
    return element("tr", *cells)


def _progress(host: Host) -> tuple[Content, ...]:
    if host.percentage is None:
        return ()
    text = f"{host.percentage:.0f}%"
    return (
        element("progress", text, value=f"{host.percentage:g}", max="100", aria_label="Progress"),
        f" {text}",
    )


def _why(host: Host) -> Element:
    return element("div", host.reason if host.is_bad else "", class_="faint")


def _moment(at: float, view: View) -> str:
    return moment(datetime.fromtimestamp(at, UTC), view.clock, view.now)
