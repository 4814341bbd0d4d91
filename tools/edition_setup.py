# @title Setup: the book's package, and what this notebook runs on
import importlib
import importlib.util
import platform
import re
import shutil
import site
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

VERSION = "made with"
WHEEL = "wheel of the package"
ADDRESS = "where it is published"


# Of these the package is made, whatever else is called like it.
MODULES = ("functional", "masks", "multihead", "reference")


def wheel_here():
    """Return the wheel beside this notebook or in Kaggle's input, if it lies there.

    A browser that has it already calls the next one "NAME (1).whl", or the like.
    """
    if Path(WHEEL).is_file():
        return Path(WHEEL)
    like = WHEEL.removesuffix(".whl") + "*.whl"
    found = [*Path().glob(like), *Path("../input").rglob(like)]
    return min(found, default=None, key=lambda file: (len(file.name), file))


def install_package():
    """Install the wheel, from here or from the book's pages."""
    wheel = wheel_here()
    get = (
        f"download {WHEEL} where you found this notebook (on the book's page"
        " it is in the same menu), put it into the folder"
        f" {Path.cwd()} (in Colab: the folder icon at the left, then upload),"
        " and run this cell again."
    )
    if not wheel and not ADDRESS:
        raise ModuleNotFoundError(f"The book's package is missing: {get}")
    # PyTorch and NumPy stay as they are.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-color"]
    with tempfile.TemporaryDirectory() as folder:
        # pip takes a wheel under its own name only.
        source = (
            shutil.copy(wheel, Path(folder, WHEEL))
            if wheel
            else ADDRESS + WHEEL
        )
        done = subprocess.run(
            [*pip, "--no-deps", source], capture_output=True, text=True
        )
    if done.returncode:
        otherwise = "" if wheel else f" Without a network, {get}"
        raise ModuleNotFoundError(
            f"{WHEEL} could not be installed. pip says:"
            f" {done.stderr.strip()}{otherwise}"
        )
    site.addsitedir(site.getusersitepackages())
    importlib.invalidate_caches()


def package_version():
    """Return the version of what is called attention, or say that it is not the package."""
    loaded = sys.modules.get("attention")
    if loaded:
        file = getattr(loaded, "__file__", None) or repr(loaded)
    else:
        spec = importlib.util.find_spec("attention")
        places = (spec and spec.submodule_search_locations) or ["attention"]
        file = (spec and spec.origin) or next(iter(places))
    # It is looked at and not imported, for a stranger's code is not to be run.
    if not all(Path(file).with_name(f"{m}.py").is_file() for m in MODULES):
        raise ImportError(
            f"{file} lies in the way of the book's package, which is called"
            " attention too: rename it, move it away or uninstall it, restart"
            " the kernel, and run this cell again."
        )
    if loaded:
        return loaded.__version__
    text = Path(file).read_text("utf-8")
    return re.search(r'^__version__ = "(.+)"', text, re.MULTILINE)[1]


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
    if found is None or (found != VERSION and wheel_here()):
        install_package()
    found = package_version()
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
