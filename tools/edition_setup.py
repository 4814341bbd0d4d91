# @title Setup: the book's package, and what this notebook runs on
import importlib.util
import platform
import site
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

VERSION = "made with"
WHEEL = "wheel of the package"
ADDRESS = "where it is published"


def install_package():
    """Install the wheel, from beside this notebook or from the book's pages."""
    nearby = Path(WHEEL).is_file()
    if not nearby and not ADDRESS:
        raise ModuleNotFoundError(
            f"The book's package is missing: put {WHEEL}, which is handed out"
            f" with this notebook, into the folder {Path.cwd()} (in Colab: the"
            " folder icon at the left, then upload), and run this cell again."
        )
    # PyTorch and NumPy stay as they are.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-color"]
    done = subprocess.run(
        [*pip, "--no-deps", WHEEL if nearby else ADDRESS + WHEEL],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ModuleNotFoundError(
            f"{WHEEL} could not be installed. pip says: {done.stderr.strip()}"
        )
    site.addsitedir(site.getusersitepackages())
    importlib.invalidate_caches()


def setup():
    """See to it that the package is there, and say what runs here."""
    for name in ("numpy", "torch", "matplotlib"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(
                f"This notebook needs {name}: install it, and start again."
            )
    try:
        found = version("attention-derived")
    except PackageNotFoundError:
        found = None
    # Of another version, only where the right one lies here.
    if found is None or (found != VERSION and Path(WHEEL).is_file()):
        install_package()
        found = VERSION
    import numpy
    import torch

    device = "CPU"
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name()
        device = f"{name} with CUDA {torch.version.cuda}"
    note = "" if found == VERSION else f" (written for {VERSION})"
    print(
        f"Python {platform.python_version()}, PyTorch {torch.__version__},"
        f" NumPy {numpy.__version__}, attention {found}{note}, on {device}"
    )


setup()
