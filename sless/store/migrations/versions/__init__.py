"""The schemas, each made from the one before. File names sort in their order."""
