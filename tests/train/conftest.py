import contextlib

import pytest
import torch

import nystream as ns


@pytest.fixture
def tiny():
    """A small model of any variant, with random landmarks where they are fixed: tiny("full", layers=2, ...).

    Several blocks are a paper stack, unless `stack` is given.
    """

    def tiny(variant="co-full-single", seed=0, window=8, landmarks=2, input_dim=3, output_dim=3, **options):
        torch.manual_seed(seed)
        attention = ns.AttentionConfig(
            variant,
            embed_dim=8,
            num_heads=2,
            window=window,
            landmarks=landmarks,
            update_size=options.pop("update_size", 1),
        )
        config = ns.ModelConfig(
            input_dim=input_dim,
            output_dim=output_dim,
            attention=attention,
            **{"ff_dim": 16, "stack": "paper", **options},
        )
        model = ns.StreamModel(config)
        for block in model.encoder.blocks:
            if block.attention.config.fixed:
                block.attention.set_landmarks(torch.randn(2, landmarks, 4), torch.randn(2, landmarks, 4))
        return model

    return tiny


@pytest.fixture
def windows():
    """Windows of three classes that differ in the mean of one column: windows(count, seed)."""

    def windows(count=48, seed=0, tokens=8):
        generator = torch.Generator().manual_seed(seed)
        y = torch.randint(3, (count,), generator=generator)
        x = torch.randn(count, tokens, 3, generator=generator) + 2 * torch.nn.functional.one_hot(y, 3)[:, None]
        return ns.train.WindowData(x, y)

    return windows


@pytest.fixture
def streams():
    """Streams whose target is the mean of the last four tokens: streams(count, seed)."""

    def streams(count=3, seed=0, tokens=60, width=3):
        generator = torch.Generator().manual_seed(seed)
        x = [torch.randn(tokens + 7 * i, 3, generator=generator) for i in range(count)]
        padded = [torch.cat([torch.zeros(3, 3), part]) for part in x]
        return ns.train.StreamData(x, [part.unfold(0, 4, 1).mean(-1)[:, :width] for part in padded])

    return streams


@pytest.fixture
def killed(monkeypatch):
    """Kill the engine of a run at an update: with killed(Single, 7): fit(...)."""

    @contextlib.contextmanager
    def killed(engine, update):
        step, left = engine.step, update

        def dies(self, *args):
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt
            return step(self, *args)

        with monkeypatch.context() as patch:
            patch.setattr(engine, "step", dies)
            with pytest.raises(KeyboardInterrupt):
                yield

    return killed
