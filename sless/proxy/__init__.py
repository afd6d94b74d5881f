"""Proxy: from an accepted request to an instance and back, without ASGI or Flask.

`routes` the in-memory table · `live_route` one workload in it: slots, who waits · `live_endpoint` one instance: slots, idle connections ·
`connection` the HTTP/1.1 client · `exchange` the answer of one call as it arrives · `heads` header rules, pure ·
`request` a call's request and record
· `policy` rules of an http trigger · `forward` one exchange · `suspects` instances that may hang · `failure` why an instance broke off ·
`refuse` errors as answers · `invoke` what /fn and invoke share · `oneoff` runs of workloads without instances, `large_event` what they
get · `recorder` history in batches · `stats` calls per minute · `logs` log lines of instances · `fetch` short requests of our own ·
`invoker` calls from reconcilers' threads · `messages` AMQP messages as calls · `accepting` calls for later · `relay` the fast path of
small calls · `hosts` functions at hosts of their own · `status_lines` reason phrases · `sweep` the clock of all calls · `plane` puts them
together.

Decision: everything here but `recorder` and the polling thread of `routes` belongs to one event loop and takes no lock. Threads come in
through `RouteTable.wake`, `Recorder.add_lines` and `LoopInvoker.invoke` alone.

Decision: time-outs are swept every 50 ms over the calls that are going on (`sweep`), because a timer per call costs more than the call's
own bookkeeping. Consequence: a time-out is up to 50 ms late.

Decision: once any byte of a request has been written to an instance the request is never written again, whatever its method; a
connection that turns out to be closed before that, or cannot be opened, costs nothing but another try.
"""
