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
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

VERSION = "made with"
WHEEL = "wheel of the package"
ADDRESS = "where it is published"


# The package is all there with these, whatever else is called like it.
MODULES = (
    "functional",
    "live",
    "masks",
    "multihead",
    "plotting",
    "positions",
    "reference",
)


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
        f"download {WHEEL} where you found this notebook (the book's page has"
        " it in the same menu), put it into the folder"
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
            [*pip, "--no-deps", "--force-reinstall", source],
            capture_output=True,
            text=True,
        )
    if done.returncode:
        case = f"If {wheel} is damaged" if wheel else "Without a network"
        otherwise = f" {case}, {get}"
        raise ModuleNotFoundError(
            f"{WHEEL} could not be installed. pip says:"
            f" {done.stderr.strip()}{otherwise}"
        )
    site.addsitedir(site.getusersitepackages())
    importlib.invalidate_caches()


def package_place():
    """Return the file or folder of what is called attention, or nothing where there is none."""
    loaded = sys.modules.get("attention")
    if loaded:
        return getattr(loaded, "__file__", None) or repr(loaded)
    spec = importlib.util.find_spec("attention")
    if spec is None:
        return None
    places = spec.submodule_search_locations or ["attention"]
    return spec.origin or next(iter(places))


def all_there(place):
    """Say whether this is the package and all of it.

    It is looked at and not imported, for a stranger's code is not to be run.
    """
    return all(Path(place).with_name(f"{m}.py").is_file() for m in MODULES)


def installed():
    """Return the installed version, and whether it is what is called attention here."""
    try:
        package = distribution("attention-derived")
    except PackageNotFoundError:
        return None, False
    folder = Path(package.locate_file("attention"))
    place = package_place()
    ours = place and Path(place) in (folder, folder / "__init__.py")
    return package.version, ours


def package_version():
    """Return the version of what is called attention, or say that it is not the package."""
    place = package_place()
    if not all_there(place):
        raise ImportError(
            f"{place} lies in the way of the book's package, which is called"
            " attention too: rename it, move it away or uninstall it, restart"
            " the kernel, and run this cell again."
        )
    if "attention" in sys.modules:
        return sys.modules["attention"].__version__
    text = Path(place).read_text("utf-8")
    return re.search(r'^__version__ = "(.+)"', text, re.MULTILINE)[1]


def setup():
    """See to it that the package is there, and say what runs here."""
    for name in ("numpy", "torch", "matplotlib"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(
                f"This notebook needs {name}: install it, and start again."
            )
    found, ours = installed()
    place = package_place()
    # What others have installed under this name is not to be overwritten.
    if place and Path(place).is_file() and not ours:
        package_version()
    # What was deleted by hand is missing, though it counts as installed.
    missing = found is None or not place or (ours and not all_there(place))
    # Of another version, only where the right one lies here.
    if missing or (found != VERSION and wheel_here()):
        install_package()
    found = package_version()
    import numpy
    import torch

    device = "CPU"
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name()
        device = f"{name} with CUDA {torch.version.cuda}"
    note = "" if found == VERSION else f" (written for {VERSION})"
    if note and installed() == (VERSION, True):
        note = f" (restart the kernel for {VERSION})"
    print(
        f"Python {platform.python_version()}, PyTorch {torch.__version__},"
        f" NumPy {numpy.__version__}, attention {found}{note}, on {device}"
    )


setup()
