"""Whether Ignition would take a config: the rules of the specification, one function for each part of it.

The rules are those of coreos.github.io/ignition, versions 3.1.0 to 3.5.0, and of what fails on the host
later: gzip that is cut off, hashes of other contents, files below files. Pure.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from service_record.deploy.ignition.disks import faults_of_disks
from service_record.deploy.ignition.fault import BadConfigError, Fault
from service_record.deploy.ignition.nodes import faults_of_nodes
from service_record.deploy.ignition.people import faults_of_people
from service_record.deploy.ignition.reading import Config
from service_record.deploy.ignition.resources import faults_of_resources
from service_record.deploy.ignition.settings import faults_of_settings
from service_record.deploy.ignition.shape import CONFIG, faults_of_shape
from service_record.deploy.ignition.units import faults_of_units
from service_record.deploy.ignition.versions import TAKEN_BY_ASSISTED_SERVICE, minor_of

_RULES: Final[tuple[Callable[[dict[str, Any], int], Iterator[Fault]], ...]] = (
    faults_of_settings,
    faults_of_resources,
    faults_of_nodes,
    faults_of_disks,
    faults_of_units,
    faults_of_people,
)


def check(config: Config) -> tuple[Fault, ...]:
    """All that is wrong with a config, warnings among it; of one whose shape is wrong, the shape alone."""
    ignition = config.get("ignition")
    if not isinstance(ignition, dict):
        return (Fault("ignition", 'is missing; a config begins {"ignition": {"version": "3.4.0"}}'),)
    try:
        minor = minor_of(ignition.get("version"))
    except ValueError as error:
        return (Fault("ignition.version", str(error)),)
    shape = tuple(faults_of_shape(config, CONFIG, minor))
    if any(not fault.is_warning for fault in shape):
        return shape
    return (*shape, *(fault for rule in _RULES for fault in rule(config, minor)))


def insist(config: Config) -> tuple[Fault, ...]:
    """The warnings about a config; BadConfigError where Ignition would refuse it."""
    faults = check(config)
    bad = tuple(fault for fault in faults if not fault.is_warning)
    if bad:
        raise BadConfigError(bad)
    return faults


def insist_on_assisted_service(config: Config) -> None:
    """Raise BadConfigError where an assisted-service does not read a config of this version."""
    version = config["ignition"]["version"]
    if version not in TAKEN_BY_ASSISTED_SERVICE:
        known = " and ".join(TAKEN_BY_ASSISTED_SERVICE)
        what = f"{version} is not taken by an assisted-service; {known} are"
        raise BadConfigError((Fault("ignition.version", what),))
