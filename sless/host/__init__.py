"""Host: runs user code on this machine. Shared by the local backend and the local builder.

`rundir` the private folder of one server process, and clean-up after a dead one · `child` and `process` child processes, served by one
thread · `guard` the process that ends the children of a killed server · `lines` pipe bytes → log lines, `output_rates` how much is
read · `memory` the memory watch · `program` command and environment of a runtime · `sandbox` bubblewrap around a child · `material`
unpacked code · `unzip` the child that unpacks · `disk` free space.

Decision: `backend` and `builder` may not import each other, but both start user code in the same way. This package holds the shared part,
like `kube` for a cluster.

Decision: the sandbox is around each child and not around the server, as that keeps tenants apart, too. What a child may see is said where
it is started (`sandbox.Access`); with a sandbox, a child without it is not started. Outside it nothing changes: the process group is that
of the child, so signals, memory and the guard work on host pids.

Decision: children are identified by what cannot be reused. Children of this server stay unreaped until their process group has been
killed (a zombie keeps its pid); those of a dead server are killed only if pid *and* start time match the recorded ones. Whether a server
is dead is known from a lock on its folder, which the kernel releases; so a server that is draining while its successor runs keeps its
instances.
"""
