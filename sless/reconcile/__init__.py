"""Control loops: each reads desired state, observes the backend, acts on the difference and records the result.

`loop` ticks and wakes · `failures` counts and notes errors, back-off per object · `decide`, `decide_runs` pure rules · `instances`,
`builds`, `runs` (with `run_plans` and `instance_calls`), `collect` the loops that apply them · `callbacks` delivers callbacks and notices
from an `outbox`, with `delivery` · `limit_notices` of limits that calls exceeded · `cron` with `timetable` · `events` starts listeners
(`listens`, pure), one `listener` per trigger, a `consumer` per channel, `attempts` rules for one message · `leader` election · `scaling`
the desired number of instances (pure), which `scaler` computes for all workloads · `demand` and `tenant_use` of all replicas · `uptime` of
instances.

Rules: observe before reading desired state, which can then only be newer than the observation; if the state cannot be observed, the tick
ends without changes; one failing object never stops the others; `wake` only makes a tick run sooner, since each tick works from the whole
state.
"""
