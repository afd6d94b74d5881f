"""Host: this machine as a place that runs user code. What the local backend and the local builder share, and nothing of either.

`rundir` the private folder of one server process, and what a dead one left · `process` children with drained pipes, one thread for all ·
`lines` pipe bytes → log lines · `memory` the memory watch · `program` command and environment of a runtime · `material` unpacked code ·
`unzip` the child that unpacks · `disk` how much room there is · `guard` the process that ends what a killed server left.

Decision: `backend` and `builder` may not import each other, but both start user code in the same way; so that way is a row of its own,
beside `kube`, which is the same thing for a cluster.

Decision: children are told from anything else by what cannot be recycled. Ours are unreaped until their group has been killed (a zombie
keeps its pid); those of a dead server are killed only if pid *and* start time are those written down. Who is dead is told by a lock on
the owner's folder, which the kernel releases; so a server that is still draining beside its successor keeps its instances.
"""
