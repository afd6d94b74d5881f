"""Proxy: a call from its accepted request to an instance and back, without ASGI or Flask.

Table: `routes` the in-memory table · `live_route` one workload in it: slots, waiting calls · `wait_queue` how many may wait, `demand` how
many do · `live_endpoint` one instance: slots, idle connections · `policy` rules of an http trigger · `tenants` limits of calls · `hosts` of
functions
Ways of a call: `relay` the fast path for small calls · `invoke` the start of the slow path, shared by /fn and …/invoke · `forward` one
exchange with an instance, `upload` the body for it · `oneoff` one run per call, `large_event` its event · `accepting` asynchronous calls ·
`invoker` calls for the reconcilers · `messages` AMQP messages as calls · `request` request and record · `refuse` errors as answers
Capacity: `bodies` how many bytes are held · `turns` long work of tenants takes turns · `peers` connections per client
Instances: `connection` the HTTP/1.1 client · `exchange` an answer as it arrives · `heads` header rules, pure · `isolation` of pages from
the console · `fetch` short requests of sless itself · `known_answer` heads that need not be parsed again
Failures: `failure` why a call failed · `suspects` instances that may hang · `logs` their log lines
Behind a call: `recorder` history in batches · `outbox` those not written yet · `history_child` the process that writes them, or
`history_sink` the recorder's own thread · `sweep` the clock of all calls · `status_lines` reason phrases
`plane` assembles all of it.

Decision: everything but `recorder` and the polling thread of `routes` belongs to one event loop and takes no lock. Threads enter through
`RouteTable.wake`, `Recorder.add_lines` and `LoopInvoker.begin` only.

Decision: history is written by a process of its own (`store.history_process`). Writing costs as much processor time as proxying, and a
thread that shares the interpreter with the loop added most of the tail: 90 instead of 53 µs per call. The loop makes compact records;
batches are numbered and kept until they are acknowledged, so a killed writer loses nothing. What the pipe holds survives the server.

Decision: time-outs are swept every 50 ms over all running calls (`sweep`), because a timer per call costs more than the call's own
bookkeeping. Consequence: a time-out is up to 50 ms late.

Decision: once a byte of a request has been written to an instance, the request is never written again, whatever its method. A connection
that turns out to be closed before that, or that cannot be opened, only costs another attempt.
"""
