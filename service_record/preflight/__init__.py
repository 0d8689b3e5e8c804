"""Checks of a host before its installation. `checks` judges values and is pure; the other modules measure."""
