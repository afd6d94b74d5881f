"""Reconcilers: make what the database wishes true, and write down what is seen.

`loop` ticks and wakes · `backoff` per object · `decide`, `decide_runs` the pure rules · `instances`, `builds`, `runs` (with `run_plans` and
`invoked`), `collect` the dull loops that apply them · `callbacks` tells how calls ended · `cron` with `timetable`, what is due next ·
`events` who listens (`listens`, pure), with one `listener` per trigger, a `session` per channel and the rules of `attempts` · `leader` who
may act.

Rules that bind here: observe before reading wishes (a wish read later can only be newer than what was seen); "cannot see" ends the tick and
changes nothing; one failing object never stops the others; `wake` only makes a tick sooner, each tick works from the whole state.
"""
