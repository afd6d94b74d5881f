"""Domain: frozen dataclasses and pure rules. No I/O, no clock, no environment.

`model` the nouns · `runtimes` the languages · `schemas` JSON Schema of every request and `answer_schemas` of every answer (they validate,
and are the OpenAPI document's) · `validate` mistakes as sentences · `spec`, `trigger_spec` JSON → spec, all mistakes at once · `phase` the
computed phase · `lifecycle` the allowed moves of things that happen once · `routing` what the proxy needs of a workload · `schedule` and
`cron` when a cron trigger is due and what becomes of it · `amqp` broker URLs and queue names · `messages` what crosses the rooms of them ·
`log_line` what an instance printed · `asynchronous` what a call for later may ask for, `request` its head and body, `attempt` one try,
`callback` who is told · `addresses` where sless may go for a tenant · `package` the rules of an uploaded zip, `code_archive` small code
packed anew · `event` an HTTP body → the event, an answer → the result · `statistics` of calls · `slots` for what
runs at once · `backoff` between attempts · `durations` how long waits are · `exits` exit codes in words · `runs` constructors of new runs ·
`ports` protocols that `app` fills, those of builders in `building`.

Decision: a phase is never stored. Writers own columns: the API writes spec columns, a reconciler writes observed ones, and `phase` reads
both; so there is no third place that could disagree.
"""
