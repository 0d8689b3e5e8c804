"""Policy of a round of the reporter: pure rules over settings, state, the server's view and local evidence.

`arrive` -> save -> `asks` -> `decide` -> for each step: `before` -> save -> do it -> `after` -> save; and
again from `decide` until the plan `is_last`. Each rule is a row of a table here, and of one in
docs/boot-reporter.md.
"""
