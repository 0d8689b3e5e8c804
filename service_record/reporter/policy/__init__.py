"""The rules of a round: pure functions of the settings, the state, the service's view and local evidence.

A round calls `begin_round`, saves, calls `reads_view` and, if it is true, reads the view. Then it calls
`decide`. For each step of the plan it calls a `count_` function, saves, carries out the step, calls an
`apply_` function and saves. It repeats this from `decide` on, until the plan `is_last`. Each rule is a row of
a table here, and of one in docs/boot-reporter-rules.md.
"""
