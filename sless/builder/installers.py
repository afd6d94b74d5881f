"""Command lines and environment of pip and npm on this machine."""

import importlib.util
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from sless import config
from sless.builder.dependencies import Tool
from sless.builder.failures import BuildFailed
from sless.host.program import node_path
from sless.host.rundir import Home

PASSED_ON = (
    "PATH", "HOME", "LANG", "LC_ALL", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
    "PIP_*", "UV_*", "NPM_CONFIG_*", "npm_config_*",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
"""Variables of the server's environment for installers: paths, indexes, proxies, certificates."""


_FILES = frozenset(
    {
        "PIP_FIND_LINKS", "PIP_CONFIG_FILE", "PIP_CERT", "NPM_CONFIG_USERCONFIG", "npm_config_userconfig", "NPM_CONFIG_CAFILE",
        "npm_config_cafile", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    }
)  # fmt: skip
_OWN_FILES = (".config/pip/pip.conf", ".pip/pip.conf", ".npmrc", ".netrc")
"""Configuration of the server's user: which index to use, and its password."""


def command_of(tool: Tool, site: Path, home: Home) -> tuple[str, ...]:
    """`site` is the folder for pip; npm installs next to package.json. Raises BuildFailed or RuntimeMissing if the tool is missing."""
    if tool is Tool.PIP:
        return (sys.executable, "-I", "-S", str(_lone_pip(home)), "install", "--target", str(site), "--requirement", "requirements.txt")
    return (_npm_path(), *tool.value.split()[1:], "--omit=dev")


def installer_environment_of(home: Home, build_env: dict[str, str]) -> dict[str, str]:
    fixed = {
        "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_PROGRESS_BAR": "off",
        "PIP_NO_COLOR": "1", "PIP_COMPILE": "1", "npm_config_audit": "false", "npm_config_fund": "false", "npm_config_progress": "false",
        "npm_config_update_notifier": "false", "npm_config_color": "false",
        "npm_config_logs_max": "0", "TMPDIR": str(home.tmp),
    }  # fmt: skip
    return {"HOME": str(home.home), "LANG": "C.UTF-8", **config.passed_on(PASSED_ON), **build_env, **fixed}


def own_caches_of(home: Home) -> dict[str, str]:
    """Separate caches for a sandbox. Those of the server's user are out of reach, because builds would run what another tenant's build
    wrote."""
    return {"PIP_NO_CACHE_DIR": "1", "npm_config_cache": str(home.tmp / "npm")}


def reads_of(tool: Tool, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """What the installer must be able to read in a sandbox besides the system: itself, Node.js, and files named in the environment."""
    named = [
        Path(value.removeprefix("file://")) for name, value in environment.items() if name in _FILES and value.startswith(("/", "file://"))
    ]
    own = Path(environment["HOME"])
    named += [own / name for name in _OWN_FILES]
    if tool is Tool.PIP:
        return (_pip_folder(), *named)
    # npm is a script among its modules.
    return (Path(node_path()).resolve().parents[1], Path(_npm_path()).resolve().parents[1], *named)


def _lone_pip(home: Home) -> Path:
    """pip in a separate folder, because it reports conflicts with packages installed next to it, which would be the server's."""
    folder = home.root / "pip"
    folder.mkdir()
    (folder / "pip").symlink_to(_pip_folder())
    return folder / "pip"


def _pip_folder() -> Path:
    found = importlib.util.find_spec("pip")
    if found is None or not found.submodule_search_locations:
        raise BuildFailed("requirements.txt cannot be installed: pip is missing on this machine")
    return Path(found.submodule_search_locations[0])


def _npm_path() -> str:
    node_path()
    path = shutil.which("npm", path=config.passed_on(("PATH",)).get("PATH"))
    if path is None:
        raise BuildFailed("package.json cannot be installed: npm is missing on this machine")
    return path
