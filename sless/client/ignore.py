"""Decides which files of a folder are not uploaded: built-in patterns, then those of `.slessignore`, in the syntax of .gitignore."""

FILE_NAME = ".slessignore"
SECRETS = ".env"
"""Usually contains passwords for local use. Left out with a notice, because some code expects it."""
TERRAFORM = (".terraform/", ".terraform.lock.hcl", "*.tf", "*.tfvars", "*.tfstate", "*.tfstate.*")
"""Terraform's files next to the code: the state contains secrets and changes with each apply."""
BUILT_IN = (".git/", ".hg/", ".svn/", ".venv/", "__pycache__/", "node_modules/", ".DS_Store", "*.pyc", SECRETS, *TERRAFORM, FILE_NAME)
"""A negated pattern in .slessignore (`!node_modules/`) overrides one of these."""


class IgnoreRules:
    """As in git, the last matching pattern decides, and files in an ignored folder cannot be re-included: check folders first."""

    def __init__(self, text: str = "") -> None:
        """Raises ValueError naming an invalid pattern."""
        from pathspec import GitIgnoreSpec  # slow to import, and most commands pack nothing

        self._spec = GitIgnoreSpec.from_lines([*BUILT_IN, *text.splitlines()])

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """`path` is relative to the folder, with `/`."""
        return self._spec.match_file(f"{path}/" if is_folder else path)
