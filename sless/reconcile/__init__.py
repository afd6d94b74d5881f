"""Reconcilers: make what the database wishes true, and write down what is seen.

`loop` ticks and wakes · `backoff` per object · `decide`, `decide_runs` the pure rules · `instances`, `builds`, `runs` (with `run_plans` and
`instance_calls`), `collect` the dull loops that apply them · `callbacks` notify how calls ended · `cron` with `timetable` ·
`events` which queues are consumed (`listens`, pure), a `listener` per trigger, a `consumer` per channel, `attempts` · `leader` who
may act.

Rules that bind here: observe before reading wishes (a wish read later can only be newer than what was seen); "cannot see" ends the tick and
changes nothing; one failing object never stops the others; `wake` only makes a tick sooner, each tick works from the whole state.
"""
