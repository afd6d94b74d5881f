"""Command lines and environment of pip and npm on this machine."""

import importlib.util
import shutil
import sys
from pathlib import Path

from sless import config
from sless.builder.dependencies import Tool
from sless.builder.work import BuildFailed
from sless.host.program import node_path
from sless.host.rundir import Home

PASSED_ON = (
    "PATH", "HOME", "LANG", "LC_ALL", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
    "PIP_*", "UV_*", "NPM_CONFIG_*", "npm_config_*",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
"""Variables of the server's environment that an installer gets: paths, indexes, proxies, certificates."""


def command_of(tool: Tool, site: Path, home: Home) -> tuple[str, ...]:
    """`site` is the folder for pip; npm installs next to package.json. Raises BuildFailed or RuntimeMissing when the tool is missing."""
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


def _lone_pip(home: Home) -> Path:
    """pip in a separate folder: it reports conflicts with every package installed next to it, which would be the server's."""
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
