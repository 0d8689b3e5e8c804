"""Pages of one file each: no network, no script, readable from a disk, in the dark and without colour. Pure.

`rendering` has the one environment of templates, and what every page has around its sections.
"""
