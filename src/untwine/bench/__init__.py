"""Benchmarks: how fast training and metrics are on this machine, and what cheaper training costs in quality.

Each benchmark is a module with a function `run`, whose arguments are the flags of `untwine bench NAME` and which
returns rows. A new one is a new module and a line in the table of `untwine.cli.commands.bench`.
"""
