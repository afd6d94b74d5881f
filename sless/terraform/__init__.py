"""The Terraform provider `sless`: resources and data sources over `sless.client`, plugin protocol 6.

PyPI's `tf` provides the messages, the type encodings and a servicer. This package adds what it lacks:

- `planning` plans from configuration and prior state, also on create, so that a code hash is known before anything is created and an
  attribute removed from the configuration returns to its default. The library plans updates only, without the configuration.
- `servicer` turns every exception into a diagnostic at the attribute it belongs to, and saves what was created before a failure:
  Terraform then marks the resource as tainted instead of forgetting it.
- `server` keeps serving after `StopProvider` until the running calls have ended, ignores the SIGINT that a terminal sends to the whole
  process group, and takes messages of up to 64 MB.
- `fields` is the table of a resource's attributes: the schema, the plan, the requests, the state and the documentation come from it.

Only `main` reads the environment. Only this package imports `tf`, `grpc` and `msgpack`.
"""
