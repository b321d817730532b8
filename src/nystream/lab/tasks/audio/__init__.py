"""Music genres (GTZAN): one token per quarter of a second, one genre per track."""

from nystream.lab.tasks.audio.embed import Embedder, VGGish, YAMNet, parameters_of
from nystream.lab.tasks.audio.folder import AudioFolder, Skipped, Track
from nystream.lab.tasks.audio.load import embed_folder, load
from nystream.lab.tasks.audio.splits import Split, mean_token_accuracy
from nystream.lab.tasks.audio.tokens import GenreTokens, load_tokens

__all__ = [
    "AudioFolder",
    "Embedder",
    "GenreTokens",
    "Skipped",
    "Split",
    "Track",
    "VGGish",
    "YAMNet",
    "embed_folder",
    "load",
    "load_tokens",
    "mean_token_accuracy",
    "parameters_of",
]
