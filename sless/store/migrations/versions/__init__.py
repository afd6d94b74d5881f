"""Migrations, each from the previous schema. File names sort in their order."""
