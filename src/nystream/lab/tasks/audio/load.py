"""Load GTZAN: from the token file, or from audio and a network that turns it into tokens."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from nystream.lab.tasks.audio.embed import Embedder
from nystream.lab.tasks.audio.folder import AudioFolder
from nystream.lab.tasks.audio.gtzan import copies_of, filtered_of
from nystream.lab.tasks.audio.tokens import GenreTokens, load_tokens


def load(path: str | Path, embedder: Embedder | None = None, show: bool | None = None) -> GenreTokens:
    """Load tracks as tokens.

    Args:
        path: The token file (`gtzan_yamnet_tokens.npz`), or a folder of audio with a subfolder per genre.
        embedder: For a folder of audio: `VGGish.from_file(weights)` or `YAMNet.from_file(weights)`.
        show: True for a progress bar, False for none, None for a bar if standard error is a terminal.
    """
    if Path(path).is_dir():
        if embedder is None:
            raise ValueError(f"{path} is a folder of audio: give an embedder, such as VGGish.from_file(weights)")
        return embed_folder(AudioFolder(path, show=show), embedder)
    if embedder is not None:
        raise ValueError(f"{path} is not a folder of audio, and only that takes an embedder")
    return load_tokens(path)


@torch.no_grad()
def embed_folder(folder: AudioFolder, embedder: Embedder) -> GenreTokens:
    """Compute the tokens of all tracks that can be read, on the device of the embedder."""
    device = next(embedder.parameters()).device
    tokens, genres, names, contents = [], [], [], []
    was_training = embedder.training
    embedder.eval()
    try:
        for track in folder:
            tokens.append(embedder(torch.from_numpy(track.samples).to(device)).cpu())
            genres.append(folder.genres.index(track.genre))
            names.append(track.name)
            contents.append(hashlib.sha256(track.samples.tobytes()).digest())
    finally:
        embedder.train(was_training)
    if not tokens:
        first = folder.skipped[0]
        raise ValueError(f"none of the {len(folder)} files can be used; {first.path.name} is {first.reason}")
    return GenreTokens(
        x=torch.stack(tokens),
        y=torch.tensor(genres),
        genres=folder.genres,
        tracks=tuple(names),
        copies=copies_of(names, contents),
        filtered=filtered_of(names),
        skipped=tuple(folder.skipped),
    )
