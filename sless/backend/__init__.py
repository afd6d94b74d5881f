"""Backend: runs user code. Implementations of `domain.ports.Backend`.

`kubernetes/` runs functions as pods and has its own charter. `local` runs them as child processes: `plan` decides (pure), `supervisor`
acts, `instances` holds the state, `starter` starts an instance, `health` checks it, `runs` executes one-off runs, `records` are their
folders, `outcome` reads their results.

Decision: a control loop manages instances, as in a cluster. `Rules.decide(desired, instances)` has no I/O and is called after every event;
nothing else starts or stops an instance. So a crash during a roll-out during a scale-down is not a special case.

Decision: memory is watched, not limited. Cgroups need rights that a user of a laptop lacks, and RLIMIT_AS breaks V8 and Go, which reserve
address space that they never use.
"""

from sless.backend.local import LocalBackend, make_local_backend

__all__ = ["LocalBackend", "make_local_backend"]
