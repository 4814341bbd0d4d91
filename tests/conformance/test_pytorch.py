"""PyTorch's own samples for its function, its multi-head function and its module, all of them."""

from __future__ import annotations

import numpy as np
import pytest
from pytorch_samples import Sample, check, factors, samples
from ways import WAYS, Way

COUNTS = {"function": 25, "forward": 192, "module": 64}


@pytest.mark.parametrize(("suite", "count"), COUNTS.items())
def test_the_pinned_release_has_as_many_samples_as_are_counted(
    suite: str, count: int
) -> None:
    found = samples(suite)
    assert len(found) == len({sample.name for sample in found}) == count


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "sample",
    [sample for suite in COUNTS for sample in samples(suite)],
    ids=lambda sample: f"{sample.suite} {sample.name}",
)
def test_output_weights_and_gradients_are_pytorchs(
    sample: Sample, way: Way
) -> None:
    check(sample, way)


def test_dropout_is_seen_to_drop_about_half_of_the_weights_of_its_samples() -> (
    None
):
    found = [
        factors(sample)
        for suite in ("function", "forward")
        for sample in samples(suite)
        if sample.dropout_p
    ]
    assert len(found) == 12 + 96
    seen = np.concatenate([x[~np.isnan(x)] for x in found])
    dropped = seen == 0
    # Within four standard deviations of a fair coin's share.
    assert abs(dropped.mean() - 0.5) < 4 * 0.5 / np.sqrt(dropped.size)
