"""Domain: frozen dataclasses and pure rules. No I/O, no clock, no environment.

`model` the nouns · `runtimes` the languages · `schemas` JSON Schema of every request (validates, and is the OpenAPI document's) · `spec` JSON → spec, all mistakes at
once · `phase` the computed phase · `lifecycle` the allowed moves of things that happen once · `schedule` cron rules · `package` the rules of an
uploaded zip · `event` an HTTP body → the event · `ports` protocols that `app` fills.

Decision: a phase is never stored. Writers own columns: the API writes spec columns, a reconciler writes observed ones, and `phase` reads both;
so there is no third place that could disagree.
"""
