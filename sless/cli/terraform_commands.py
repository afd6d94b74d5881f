"""`sless terraform …`: installs the Terraform provider on this machine."""

from pathlib import Path

import click

from sless.terraform.install import InstallError, cli_config
from sless.terraform.install import install as install_provider
from sless.terraform.version import ADDRESS, VERSION

MIRROR = "~/.terraform.d/plugins"


@click.group()
def terraform() -> None:
    """Install the Terraform provider.

    \b
    Example:
      sless terraform install
    """


@terraform.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--dir", "folder", default=MIRROR, show_default=True, metavar="DIR", help="Filesystem mirror.")
@click.option("--address", default=ADDRESS, show_default=True, metavar="HOST/NS/NAME", help="Source address that configurations use.")
def install(file: Path | None, folder: str, address: str) -> None:
    """Put the provider into a filesystem mirror and print the CLI configuration for it.

    FILE is what `make provider` built. Without it the provider runs with this Python, which needs sless[terraform].

    \b
    Examples:
      sless terraform install
      sless terraform install dist/terraform-provider-sless_v0.1.20 --address registry.example.org/cloud/sless
    """
    mirror = Path(folder).expanduser().absolute()
    try:
        target = install_provider(mirror, address, file)
    except InstallError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Installed provider {VERSION}: {target}\n", err=True)
    click.echo("Add to ~/.terraformrc (OpenTofu: ~/.tofurc):\n", err=True)
    click.echo(cli_config(mirror, address), nl=False)
