"""Scaled dot-product and multi-head attention, as derived in the book *Attention, Derived*.

========================  ==================================================================
module                    what it holds
========================  ==================================================================
:mod:`.reference`         the main equations in NumPy, readable before fast
:mod:`.masks`             who may attend to whom: boolean masks, True = may attend
:mod:`.functional`        the PyTorch function, a drop-in for PyTorch's own, weights on request
:mod:`.multihead`         the PyTorch layer, to and from ``torch.nn.MultiheadAttention``
:mod:`.positions`         sinusoidal codes, and rotary embedding (RoPE) in both pairings
:mod:`.plotting`          the book's figures (needs matplotlib; not imported here)
:mod:`.live`              figures that a reader turns (the same; draws with live.js)
:mod:`.exercises`         checkers of answers to the book's exercises (not imported here)
========================  ==================================================================

The letters in shapes: B batch, H heads and, as in PyTorch's documentation, L queries, S keys,
E = d_k the width of a query or key, Ev = d_v the width of a value; ``...`` is any number of
leading axes, which broadcast.
"""

from attention import functional, masks, multihead, positions, reference
from attention.functional import scaled_dot_product_attention
from attention.multihead import MultiHeadAttention

__version__ = "0.1.0"

__all__ = [
    "MultiHeadAttention",
    "__version__",
    "functional",
    "masks",
    "multihead",
    "positions",
    "reference",
    "scaled_dot_product_attention",
]
