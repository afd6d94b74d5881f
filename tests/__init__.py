"""Tests of sless: unit (rules, no I/O), contract (one suite per protocol over each implementation), conformance (runtimes), integration
(real services and processes), e2e (what a user does), bench (numbers, not run by `make test`)."""
