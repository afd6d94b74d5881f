"""Backend: where user code runs; implementations of `domain.ports.Backend`.

`kubernetes/` runs functions as pods and has its own charter. `local` runs them as child processes: `plan` decides (pure), `supervisor`
applies, `instances` holds the state, `starter` starts one, `health` checks one, `runs` one-off runs, `records` their folders, `outcome`
their results, `split_result` (a separate process) splits results too large to parse here.

Decision: instances are managed by a control loop, as in a cluster. `Rules.decide(desired, instances)` has no I/O and is called after every
event; nothing else starts or stops an instance. So a crash during a roll-out during a scale-down is not a special case.

Decision: memory is watched, not limited. Cgroups need rights that a laptop does not give, and RLIMIT_AS breaks V8 and Go, which reserve
address space they never use.
"""

from sless.backend.local import LocalBackend, make_local_backend

__all__ = ["LocalBackend", "make_local_backend"]
