"""Domain: frozen dataclasses and pure rules. No I/O, no clock, no environment.

`model` the nouns · `runtimes` the languages · `schemas` JSON Schema of every request, `answer_schemas` of every answer (used for validation
and for the OpenAPI document) · `validate` schema errors as sentences · `spec`, `trigger_spec` JSON → spec, reporting all errors at once ·
`instance_bounds` minimum and maximum of instances, `instances_state` why there are that many, `demand` load per workload · `phase` computes
the phase · `lifecycle` allowed state transitions · `routing` what the proxy needs to know about a workload, `function_urls` public URLs of
functions · `schedule`, `cron` when a cron trigger is due and what happens then · `amqp` broker URLs and queue names · `messages` AMQP
messages passed between rooms · `log_line` a line an instance printed, `output_rates` rate limits of output · `asynchronous` options of
asynchronous calls, `request` their stored head and body, `callback` the notification at the end · `addresses` which addresses sless may
connect to for a tenant · `package` rules for uploaded zips, `code_archive` repacks small code · `event` HTTP body → event, answer → result
· `statistics` of calls · `slots` capacity for concurrent work, `limits` of a tenant, `instance_shares` of its workloads, `queue_limits` for
waiting calls · `runs` constructors of new runs, and their attempts · `durations` of waits, back-off · `exits` exit codes in words · `ports`
protocols that `app` implements, `building` those of builders.

For operators, the people who run sless: `audit` entries of the audit trail, `operators` revoked tokens and reports on tenants,
`operator_schemas` their requests and answers, `code_check` input and result of code checks, `metering` usage for billing, `uptime` of
instances, `notice` messages to tenants, `blobs` stored code, `earlier` converts objects of the earlier operator.
For the console: `overview_schema` its answers.

Between the server and the process that writes history: `history_batch` encodes records and delimits messages, `call_sums` adds up calls per
minute.

Decision: the phase is never stored. The API writes spec columns, the reconciler writes observed columns, and `phase` computes the phase
from both, so it can never disagree with them.
"""
