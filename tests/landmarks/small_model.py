"""Small models and data for the tests of `fit_landmarks`; they load it with runpy."""

import torch

import nystream as ns
from nystream import variants
from nystream.landmarks import fit_landmarks

FIXED = tuple(v for v in ns.VARIANTS if variants.get(v).fixed)
METHODS = ("qk", "x")
E, HEADS, D, N, M, WIDTH = 8, 2, 4, 6, 3, 5


def config(variant="co-fixed-single", **options):
    return ns.AttentionConfig(variant, **{"embed_dim": E, "num_heads": HEADS, "window": N, "landmarks": M} | options)


def build(attention=None, dtype=torch.float64, **options):
    options = {"input_dim": WIDTH, "output_dim": 2, "ff_dim": 16} | options
    return ns.StreamModel(ns.ModelConfig(attention=attention or config(), **options), dtype=dtype)


def encoder(attention=None, dtype=torch.float64, **options):
    """Post-norm: its first attention sees x itself."""
    options = {"norm": "post", "ff_dim": 16} | options
    return ns.StreamEncoder(ns.EncoderConfig(attention=attention or config(), **options), dtype=dtype)


def data(count=3, batch=4, tokens=12, width=WIDTH, dtype=torch.float64):
    return [torch.randn(batch, tokens, width, dtype=dtype) for _ in range(count)]


def fit(model, batches, **options):
    return fit_landmarks(model, batches, progress=False, **options)
