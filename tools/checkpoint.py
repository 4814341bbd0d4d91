"""Train the models of the chapter on what heads learn, with its own cells, and store them.

python tools/checkpoint.py

The same machine with the same versions gives the same bytes; another rounds differently, and gives
models much alike.
"""

import io
import sys
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import torch
from execute import CHAPTERS, ROOT, load

CHAPTER = CHAPTERS / "what-heads-learn.ipynb"
FOLDER = ROOT / "attention" / "checkpoints"
STEPS = 1500
SEEDS = 10
MODELS = {
    "two_layers_four_heads": {},
    "two_layers_one_head": {"num_heads": 1},
    "one_layer_four_heads": {"num_layers": 1},
}


def cells_of_the_model() -> dict[str, Any]:
    """Run the chapter's cells that are tagged `model`; return the names that they define."""
    names: dict[str, Any] = {}
    for cell in load(CHAPTER).cells:
        if "model" in cell.metadata.get("tags", []):
            with redirect_stdout(io.StringIO()):
                exec(compile(cell.source, cell.id, "exec"), names)
    # A bar needs a notebook.
    names["watched"] = range
    return names


def tokens_to_measure_on(page: dict[str, Any]) -> torch.Tensor:
    """Sequences of the length that is kept out of the training."""
    return page["repeats"](np.random.default_rng(1), 200, 12)


def rounded(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """The parameters in half precision."""
    return {
        name: parameter.numpy().astype(np.float16)
        for name, parameter in model.state_dict().items()
    }


def trained(
    page: dict[str, Any], seed: int, sizes: dict[str, int], steps: int
) -> tuple[torch.nn.Module, dict[str, np.ndarray]]:
    """Return a model whose parameters fit half precision, and its file's contents."""
    torch.manual_seed(seed)
    model = page["AttentionOnly"](**sizes)
    tokens = page["repeats"](np.random.default_rng(2), 20, 12)
    trace = []

    def probe(model: torch.nn.Module, step: int) -> None:
        if step % 10 == 0:
            scores = page["head_scores"](model, tokens)
            trace.append(torch.stack(list(scores.values())).numpy())

    history = page["train"](model, steps, seed=seed, probe=probe)
    arrays = rounded(model)
    model.load_state_dict(
        {name: torch.from_numpy(array) for name, array in arrays.items()}
    )
    arrays["history"] = np.array(history, dtype=np.float16)
    arrays["trace"] = np.array(trace, dtype=np.float16)
    return model.double().requires_grad_(False), arrays


def survey(
    page: dict[str, Any], models: list[torch.nn.Module]
) -> dict[str, np.ndarray]:
    """Scores of the heads and losses without them, for models from several seeds."""
    tokens = tokens_to_measure_on(page)
    rows = {"loss": [], "scores": [], "ablated": []}
    for model in models:
        loss = page["copy_loss"](model(tokens), tokens)
        rows["loss"].append(loss.item())
        scores = page["head_scores"](model, tokens)
        rows["scores"].append(torch.stack(list(scores.values())).numpy())
        rows["ablated"].append(page["ablated"](model, tokens))
    return {
        name: np.array(row, dtype=np.float32) for name, row in rows.items()
    }


def main() -> int:
    """Train all models, which takes some minutes, and write the files."""
    torch.set_num_threads(1)
    page = cells_of_the_model()
    FOLDER.mkdir(exist_ok=True)
    for name, sizes in MODELS.items():
        print(f"{name}:", end=" ", flush=True)
        model, arrays = trained(page, 0, sizes, STEPS)
        np.savez(FOLDER / f"repeats_{name}.npz", **arrays)
        print(f"loss {arrays['history'][-100:].mean(dtype=float):.4f}")
        if not sizes:
            models = [model]
    for seed in range(1, SEEDS):
        print(f"seed {seed}:", end=" ", flush=True)
        model, arrays = trained(page, seed, {}, STEPS)
        models.append(model)
        print(f"loss {arrays['history'][-100:].mean(dtype=float):.4f}")
    np.savez(FOLDER / "repeats_ten_seeds.npz", **survey(page, models))
    return 0


if __name__ == "__main__":
    sys.exit(main())
