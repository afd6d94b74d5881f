"""Reconcilers: control loops that read desired state, observe the backend, act on the difference and record the result.

`loop` ticks and wakes · `backoff` per object · `failure` what is noted of errors · `decide`, `decide_runs` pure rules · `instances`,
`builds`, `runs` (with `run_plans` and `instance_calls`), `collect` the loops that apply them · `callbacks` POST to tenants what is in an
`outbox` · `cron` with `timetable` · `events` starts listeners (`listens`, pure), one `listener` per trigger, a `consumer` per channel,
`attempts` rules for one message · `leader` election · `scaling` how many instances (pure) · `scaler` applies it · `demand` of all
replicas · `uptime` of instances.

Rules: observe before reading desired state, which can then only be newer than the observation; "cannot see" ends the tick and changes
nothing; one failing object never stops the others; `wake` only makes a tick sooner, as each tick works from the whole state.
"""
