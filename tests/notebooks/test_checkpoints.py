"""The stored models fit the chapter that reads them, and its cells can make them again."""

import checkpoint
import numpy as np
import pytest
import torch

FILES = sorted(checkpoint.FOLDER.glob("*.npz"))


@pytest.fixture(scope="module")
def page() -> dict:
    return checkpoint.cells_of_the_model()


def test_there_is_a_file_for_each_model_and_one_for_the_seeds():
    expected = {*checkpoint.MODELS, "ten_seeds"}
    assert {path.stem for path in FILES} == {
        f"repeats_{name}" for name in expected
    }


def test_the_files_are_small():
    assert sum(path.stat().st_size for path in FILES) < 300_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_holds_finite_numbers_and_no_pickle(path):
    with np.load(path, allow_pickle=False) as stored:
        assert all(np.isfinite(array).all() for array in stored.values())


@pytest.mark.parametrize("name", checkpoint.MODELS)
def test_the_parameters_are_those_of_the_pages_model(name: str, page: dict):
    model = page["AttentionOnly"](**checkpoint.MODELS[name])
    with np.load(checkpoint.FOLDER / f"repeats_{name}.npz") as stored:
        arrays = dict(stored)
    assert arrays.pop("history").shape == (checkpoint.STEPS,)
    arrays.pop("trace")
    assert {key: array.shape for key, array in arrays.items()} == {
        key: tuple(value.shape) for key, value in model.state_dict().items()
    }
    assert {array.dtype for array in arrays.values()} == {
        np.dtype("float16")
    }


def test_a_seed_gives_the_same_model_twice(page: dict):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    first, second = (
        checkpoint.trained(page, 3, {}, steps=12)[1] for _ in range(2)
    )
    torch.set_num_threads(threads)
    assert all((first[key] == second[key]).all() for key in first)


@pytest.mark.parametrize("name", checkpoint.MODELS)
def test_a_training_begins_as_the_stored_one_did(name: str, page: dict):
    """Else the page's cells are not those that made what the page shows."""
    sizes = checkpoint.MODELS[name]
    _, arrays = checkpoint.trained(page, 0, sizes, steps=60)
    with np.load(checkpoint.FOLDER / f"repeats_{name}.npz") as stored:
        for key, same in (
            ("history", 48),
            ("trace", 5),
        ):  # as long as the rate is
            assert np.allclose(
                arrays[key][:same].astype(float),
                stored[key][:same].astype(float),
                rtol=0,
                atol=0.01,
            ), key
