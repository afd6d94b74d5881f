"""The Terraform provider `sless`: resources and data sources over `sless.client`, plugin protocol 6.

PyPI's `tf` provides the messages, the type encodings and a servicer. This package adds what it lacks:

- `planning` plans from configuration and prior state, even on create, so that the code hash is known before anything is created, and an
  attribute removed from the configuration returns to its default. The library only plans updates, without the configuration.
- `servicer` turns every exception into a diagnostic at the attribute it belongs to, and saves what was created before a failure:
  Terraform then marks the resource as tainted instead of forgetting it.
- `server` keeps serving after `StopProvider` until the running calls have ended, ignores the SIGINT that a terminal sends to the whole
  process group, and takes messages of up to 64 MB.
- It remembers the values that the server chose for attributes whose default its operator can change, as private data of the state. They
  are only sent if the configuration has them.
- `write_only` keeps secrets out of plans and states. The library's messages lack this field, but pass on unknown fields.
- `fields` is the table of a resource's attributes, from which the schema, the plan, the requests, the state and the documentation are
  derived.

Only `main` reads the environment. Only this package imports `tf`, `grpc` and `msgpack`.
"""
