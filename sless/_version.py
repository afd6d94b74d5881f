"""The version of sless. pyproject.toml, `sless version` and the metric build_info read it here."""

__version__ = "0.1.0.dev0"
