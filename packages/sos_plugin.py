"""A plugin of sos: the records of bootstrap services, and what `service-record` says about the host.

It is installed as `service_record.py` in `/usr/share/service-record/sos`. docs/bundle.md says how to enable
it.
"""

from sos.report.plugins import CosPlugin, DebianPlugin, Plugin, RedHatPlugin, UbuntuPlugin


class ServiceRecord(Plugin, RedHatPlugin, DebianPlugin, UbuntuPlugin, CosPlugin):
    """Collect the records and the analysis of this host."""

    short_desc = "Records of bootstrap services"
    plugin_name = "service_record"
    profiles = ("boot", "services", "system")
    packages = ("service-record-shim", "service-record")
    files = ("/var/log/openshift", "/run/service-record")

    def setup(self) -> None:
        self.add_copy_spec(["/var/log/openshift/*.json*", "/run/service-record/*.json"])
        self.add_cmd_output(
            [
                "service-record analyze --color never",
                "service-record analyze --output json",
                "service-record show --output wide --color never",
                "service-record timeline --color never",
                "service-record doctor",
            ]
        )

    def postproc(self) -> None:
        # Messages and commands in a record are what the services wrote.
        pattern = r"(?i)((?:password|passwd|token|secret)\\?[\"']?[=:]\s*\\?[\"']?)[^\s\"'\\,&]+"
        self.do_path_regex_sub(r"/(?:var/log/openshift|run/service-record)/", pattern, r"\1******")
        self.do_cmd_output_sub("service-record *", pattern, r"\1******")
