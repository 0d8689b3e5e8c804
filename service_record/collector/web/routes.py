"""Where the pages are."""

from typing import Final

from starlette.routing import Route

from service_record.collector.api import bundles, templates
from service_record.collector.api.numbers import NUMBER
from service_record.collector.web import clusters, events, fleet, hosts, login, statistics
from service_record.collector.web.assets import get_asset
from service_record.collector.web.sessions import for_readers

PAGES: Final = (
    Route("/", for_readers(fleet.get_fleet)),
    Route("/hosts/{host}", for_readers(hosts.get_host)),
    Route(f"/hosts/{{host}}/steps/{{step:{NUMBER}}}/logs", for_readers(hosts.get_logs)),
    Route("/hosts/{host}/analysis", for_readers(hosts.get_analysis)),
    Route("/hosts/{host}/bundles/{bundle}", for_readers(bundles.send_bundle)),
    Route("/clusters", for_readers(clusters.get_clusters)),
    Route("/clusters/{cluster}", for_readers(clusters.get_cluster)),
    Route("/clusters/{cluster}/logs/{kind}", for_readers(clusters.get_logs)),
    Route("/hosts/{host}/templates/{template}", for_readers(templates.show_template)),
    Route("/statistics", for_readers(statistics.get_statistics)),
    Route("/events", for_readers(events.get_events)),
    Route("/login", login.get_login, methods=["GET"]),
    Route("/login", login.post_login, methods=["POST"]),
    Route("/logout", for_readers(login.post_logout), methods=["POST"]),
    Route("/static/{file}", get_asset),
)
