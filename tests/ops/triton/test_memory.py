"""What `steps` allocates through the kernels, at full size: on the meta device, where nothing is computed."""

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

pytest.importorskip("triton", reason="Triton is not available for this platform")

from nystream.ops.later import Later
from nystream.ops.triton import full, full_kernels, input_kernels, landmark_gradients, landmark_kernels, landmarks
from nystream.ops.triton.band import Band

T, N, H, D, M = 16_384, 512, 8, 64, 16
TOKENS, LOGITS = 4 * T * H * D, 4 * T * H * M  # bytes of the values and of the logits of a piece
SLACK = 0.2 * LOGITS  # for bands and what has one number per token and head


class Memory(TorchDispatchMode):
    """The bytes of all tensors that operators have made, other than `inputs`, and their peak."""

    def __init__(self, inputs):
        super().__init__()
        self.inputs = {StorageWeakRef(x.untyped_storage()).cdata for x in inputs}
        self.alive, self.peak = {}, 0

    def now(self):
        self.alive = {key: (storage, size) for key, (storage, size) in self.alive.items() if not storage.expired()}
        return sum(size for _, size in self.alive.values())

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else [out]:
            storage = StorageWeakRef(x.untyped_storage())
            if storage.cdata not in self.inputs:
                self.alive[storage.cdata] = (storage, x.untyped_storage().nbytes())
        self.peak = max(self.peak, self.now())
        return out


class Nothing:
    """A kernel that does nothing."""

    def __getitem__(self, grid):
        return lambda *args, **sizes: None


@pytest.fixture(autouse=True)
def _no_kernels(monkeypatch):
    for module, names in {
        full_kernels: ("attend", "lse_gradient", "query_gradient", "key_gradients"),
        landmark_kernels: ("normalize", "attend"),
        input_kernels: ("unroll", "to_base_two"),
        landmark_gradients: ("weight_gradient", "middle_gradients", "edge_gradients"),
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, Nothing())


def used(attend, *tensors):
    """Bytes that are kept for the backward pass, and the peak, on top of the tensors and the slope of the loss."""
    band = Band(*(torch.empty(1, size, dtype=torch.int32, device="meta") for size in (T, T, N + T, N + T)))
    slope = torch.empty(1, T, H, D, device="meta")
    with Memory([*tensors, *band, slope]) as memory:
        loss = (attend(None, band, Later(slope.new_zeros(1))) * slope).sum()
        kept = memory.now()
        torch.autograd.grad(loss, [x for x in tensors if x.requires_grad])
    return kept, memory.peak


def piece(*shape):
    return torch.empty(shape, device="meta", requires_grad=True)


@pytest.mark.parametrize("decay", [False, True])
def test_full(decay):
    q, k, v = (piece(1, T, H, D) for _ in range(3))
    ring_key, ring_value = torch.empty(2, 1, N, H, D, device="meta")
    rates = piece(1, H)
    kept, peak = used(
        lambda *rest: full.attend(q, ring_key, k, ring_value, v, rates if decay else None, 1.0, *rest),
        *(q, k, v, ring_key, ring_value, *([rates] if decay else [])),
    )
    assert kept <= TOKENS + SLACK  # o
    assert peak <= 4 * TOKENS + SLACK  # do, dq, dk, dv


@pytest.mark.parametrize("decay", [False, True])
def test_landmarks(decay):
    weight, logit, v = piece(1, H, M, T), piece(1, H, M, T), piece(1, T, H, D)
    ring_logit, ring_value = (torch.empty(1, N, H, width, device="meta") for width in (M, D))
    rates = piece(1, H)
    kept, peak = used(
        lambda *rest: landmarks.attend(
            *(weight.permute(0, 3, 1, 2), ring_logit, logit.permute(0, 3, 1, 2), ring_value, v),
            *(rates if decay else None, *rest),
        ),
        *(weight, logit, v, ring_logit, ring_value, *([rates] if decay else [])),
    )
    assert kept <= 2 * LOGITS + SLACK  # logits to base two, L
    assert peak <= 2 * TOKENS + 4 * LOGITS + SLACK  # do, dv, and these with dw, dl
