"""Proxy: a call from its accepted request to an instance and back, without ASGI or Flask.

Table: `routes` the in-memory table · `live_route` one workload in it: slots, waiting calls · `wait_queue` limits of waiting calls, `demand`
counts them · `live_endpoint` one instance: slots, idle connections · `policy` rules of an http trigger · `tenants` limits of calls,
`limits_reached` those that calls exceeded · `hosts` of functions
Kinds of calls: `relay` the fast path for small calls · `invoke` the start of the slow path, shared by /fn and …/invoke · `forward` one
exchange with an instance, `request_body` the body for it · `oneoff` one run per call, `run_room` how many at once, `large_event` its event
· `accepting` asynchronous calls · `invoker` calls for the control loops · `messages` AMQP messages as calls · `request` request and record
· `refuse` errors as answers
Capacity: `bodies` bytes held in all · `turns` takes turns between tenants at long work · `peers` connections per client
Instances: `connection` the HTTP/1.1 client · `exchange` an answer as it arrives · `heads` header rules and status lines, pure ·
`isolation` of pages from the console · `fetch` short requests of sless itself · `known_answer` heads that need not be parsed again
Failures: `failure` why a call failed · `suspects` instances that may hang · `logs` their log lines
History: `recorder` collects it in batches · `batch_queue` batches not written yet · `history_child` the process that writes them, or
`history_sink` the recorder's own thread
Other: `sweep` the clock of all calls · `plane` assembles all of it

Decision: everything but `recorder`, `run_room`, `limits_reached` and the polling thread of `routes` belongs to one event loop and takes no
lock. Threads enter through `RouteTable.wake`, `Recorder.add_lines`, `LoopInvoker.begin` and `WaitQueue.depth` only.

Decision: history is written by a process of its own (`store.history_process`). Writing costs as much processor time as proxying, and a
thread that shares the interpreter with the loop added most of the tail: 90 instead of 53 µs per call. The loop makes compact records;
batches are numbered and kept until they are acknowledged, so nothing is lost if the writer is killed. Each batch goes to the writer as a
file in memory, so that it also writes what it was sent after the server has exited. The first writer is forked before the server has
threads, because the imports of a new interpreter took a third of the processor time of a start; its successors are executed.

Decision: time-outs are swept every 50 ms over all running calls (`sweep`), because a timer per call costs more than the call's own
bookkeeping. Consequence: a time-out is up to 50 ms late.

Decision: once a byte of a request has been written to an instance, the request is never sent again, whatever its method. If the connection
turns out to be closed before that, or cannot be opened, the call is tried again.
"""
