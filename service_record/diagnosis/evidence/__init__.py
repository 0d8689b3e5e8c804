"""Evidence: the facts and log lines in the files of one host, each with its place. Pure.

It imports nothing from the rest of `diagnosis`.
"""
