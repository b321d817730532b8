"""Jobs that write files and are killed in the middle of one of them: killed_writer.py FOLDER.

Each of `KILLS` is a process of its own, in FOLDER/JOB-FILE; the last line says how each ended. Tests use `JOBS`, too.
"""

import importlib
import json
import os
import signal
import sys
from pathlib import Path

import torch

import nystream as ns
from nystream import files


def model(variant="co-full-single"):
    torch.manual_seed(0)
    attention = ns.AttentionConfig(variant, embed_dim=8, num_heads=2, window=6, landmarks=2)
    return ns.StreamModel(ns.ModelConfig(input_dim=3, output_dim=3, attention=attention, ff_dim=8)).eval()


def state(folder):
    one = model()
    ns.save_state(folder / "a.state", one.init_state(1), one)


def pretrained(folder):
    model().save_pretrained(folder / "model")


def data():
    generator = torch.Generator().manual_seed(0)
    return ns.train.WindowData(torch.randn(16, 6, 3, generator=generator), torch.arange(16) % 3)


def fit(folder):
    config = ns.train.TrainConfig(epochs=2)
    ns.train.fit(model(), data(), None, config, task=ns.train.Classification(), folder=folder, tensorboard=False)


def two_phase(folder):
    config = ns.train.TrainConfig(epochs=1)
    options = {"task": ns.train.Classification(), "config": config, "folder": folder, "tensorboard": False}
    ns.train_two_phase([model("co-cont-single") for _ in range(2)], data(), **options)


def session(folder):
    from nystream.live import saving
    from nystream.live.session import Session

    saving.save(folder / "session", Session(model(), backend="torch"), saving.Position())


def record(folder):
    from nystream.lab.reproduce import store

    store.write(folder, {"name": "cell"})


def bench(folder):
    from nystream import provenance
    from nystream.files import require_writable

    require_writable("out", folder / "bench.json")
    provenance.write(folder / "bench.json", "nystream bench", {})


def run(folder):
    from nystream.cli import main

    table = folder / "data.csv"
    if not table.exists():
        rows = (f"2024-01-{1 + i // 24:02} {i % 24:02}:00,{100 + i * 7 % 11}" for i in range(160))
        table.write_text("\n".join(["time,total", *rows]) + "\n")
    small = ["--window", "8", "--embed-dim", "8", "--num-heads", "2", "--epochs", "1", "--variant", "co-full"]
    assert main(["train", str(table), "--target", "total", "--out", str(folder / "run"), "--plain", *small]) == 0


JOBS = {job.__name__: job for job in (state, pretrained, fit, two_phase, session, record, bench, run)}


KILLS = [
    ("state", "a.state"),
    ("pretrained", "model.safetensors"),
    ("pretrained", "config.json"),
    ("pretrained", "README.md"),
    ("fit", "metrics.jsonl"),
    ("fit", "checkpoint.safetensors"),
    ("fit", "config.json"),
    ("two_phase", "checkpoint.safetensors"),
    ("session", "session"),
    ("record", "cell.json"),
    ("bench", "bench.json"),
    ("run", "config.toml"),
    ("run", "checkpoint.safetensors"),
    ("run", "scores.json"),
]


def kill_at(name):
    """Kill the process when a file of that name is complete, but not yet renamed."""
    replace = os.replace

    def deadly(source, target):
        if Path(target).name == name and files.is_remnant(Path(source).parent):
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    os.replace = deadly


def killed(job, folder, name):
    """Run the job in a process, and return its exit code, like `returncode` of subprocess."""
    folder.mkdir()
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    kill_at(name)
    try:
        JOBS[job](folder)
    finally:
        os._exit(1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for slow in ("torch._dynamo", "sklearn.cluster", "nystream.live.session", "nystream.lab.reproduce.store"):
        importlib.import_module(slow)  # once, not in every process
    endings = {f"{job}-{name}": killed(job, Path(sys.argv[1]) / f"{job}-{name}", name) for job, name in KILLS}
    sys.stdout.write("\n" + json.dumps(endings) + "\n")
