"""Tests of sless: unit (rules, no I/O), contract (one suite per protocol, run on each implementation), conformance (runtimes), integration
(real services and processes), e2e (user workflows), bench (measurements, not run by `make test`)."""
