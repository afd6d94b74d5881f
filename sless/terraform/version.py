"""The provider's version and address. Nothing to import."""

VERSION = "0.1.20"
"""Counted apart from sless: configurations written for the former provider ask for 0.1.x."""
ADDRESS = "registry.terraform.io/sless/sless"
