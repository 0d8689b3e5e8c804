"""Pages of one file each: no network, no script, readable from a disk, in the dark and without colour. Pure.

`frame` has what every page has around its sections, and the elements they are built of: trees of the standard
library, in which no text becomes markup. Templates would be a dependency more, and escape by a setting.
"""
