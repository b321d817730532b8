"""A small training run in the folder that is given: for tests that kill it, and for torchrun."""

import os
import sys

import torch

import nystream as ns
from nystream.train import Classification, TrainConfig, WindowData, fit, train_two_phase


def main(folder, phases=False, average=0.0):
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(3, (64,), generator=generator)
    x = torch.randn(64, 8, 3, generator=generator) + torch.nn.functional.one_hot(y, 3)[:, None]
    data = WindowData(x.double(), y)
    torch.manual_seed(0)
    attention = ns.AttentionConfig("co-cont-single", embed_dim=8, num_heads=2, window=8, landmarks=2)
    cfg = ns.ModelConfig(input_dim=3, output_dim=3, attention=attention, ff_dim=16, layers=2, stack="paper")
    model = ns.StreamModel(cfg).double()
    if phases:  # several runs in one process, a last batch of one row and one row to validate on
        train, valid = data.subset(range(33)), data.subset([40])
        config = TrainConfig(epochs=1, batch_size=16, lr=1e-2)
        fixed = train_two_phase(model, train, valid, task=Classification(), config=config)
        rank = os.environ.get("RANK", "0")
        fixed.save_pretrained(f"{folder}/{rank}")
        return
    config = TrainConfig(epochs=6, batch_size=16, lr=1e-2, checkpoint_every=3, average=average)
    train, valid = data.subset(range(48)), data.subset(range(48, 64))
    fit(model, train, valid, config, task=Classification(), folder=folder, tensorboard=False)


if __name__ == "__main__":
    main(sys.argv[1], "phases" in sys.argv[2:], 0.9 if "average" in sys.argv[2:] else 0.0)
