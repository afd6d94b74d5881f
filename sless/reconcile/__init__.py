"""Reconcilers: make what the database wishes true, and write down what is seen.

`loop` ticks and wakes · `backoff` per object · `decide` the pure rules · `instances`, `builds`, `runs`, `collect` the dull loops that apply
them · `cron` with `timetable`, what is due next · `leader` who may act.

Rules that bind here: observe before reading wishes (a wish read later can only be newer than what was seen); "cannot see" ends the tick and
changes nothing; one failing object never stops the others; `wake` only makes a tick sooner, each tick works from the whole state.
"""
