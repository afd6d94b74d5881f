"""The provider's version and address. Imports nothing."""

VERSION = "0.1.20"
"""Independent of sless's version: configurations written for the former provider ask for 0.1.x."""
ADDRESS = "registry.terraform.io/sless/sless"
