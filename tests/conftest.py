"""What holds for every test."""

from hypothesis import HealthCheck, settings

# On a machine that is busy, or that runs hypothesis for the first time, a slow draw or case is no failure.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
