"""The provider's documentation matches its schema."""

from sless.terraform.docs import pages


def test_the_documentation_is_generated_from_the_schema(repository):
    folder = repository / "docs"
    found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.md")}
    assert found == pages(), "make provider-docs"
