"""Tests of the console in a browser. A package, so that its fixtures end with it."""
