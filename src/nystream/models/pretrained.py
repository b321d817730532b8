"""Models as files: `config.json` and `model.safetensors` in a folder, or in a repository on a hub. No pickle.

`save_pretrained` and `push_to_hub` are huggingface-hub's; reading is ours, so that what is not understood is refused.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

import nystream.state as states
from nystream.config import ModelConfig, ModelInfo
from nystream.version import __version__

if TYPE_CHECKING:
    # The real mixin is not typed strictly; this is what of it is used here.
    class PyTorchModelHubMixin:
        def __init_subclass__(cls, **about: Any) -> None: ...

        def save_pretrained(self, save_directory: str | os.PathLike[str], **options: Any) -> str | None: ...

else:
    try:
        from huggingface_hub import PyTorchModelHubMixin
    except ModuleNotFoundError:

        class PyTorchModelHubMixin:
            """Models train, stream and load without huggingface-hub; saving them needs it."""

            def __init_subclass__(cls, **about):
                super().__init_subclass__()

            def save_pretrained(self, save_directory, **options):
                raise ModuleNotFoundError(NEEDED, name="huggingface_hub")

            push_to_hub = save_pretrained


NEEDED = "save_pretrained needs huggingface-hub: pip install huggingface-hub"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
FORMAT = 1
DOWNLOAD = ("revision", "token", "cache_dir", "force_download", "local_files_only")

CARD = """---
{{ card_data }}
---

# A nystream model

It reads a stream one token at a time. Load it with

```python
import nystream as ns

model = ns.StreamModel.from_pretrained("this folder, or the name of this repository")
state = model.init_state(1)
y, state = model.step(x, state)  # x [1, input_dim]
```

`config.json` says what it is and what its numbers mean.
"""


def require() -> None:
    """Refuse early where a model could not be saved, before it is trained."""
    try:
        from huggingface_hub import PyTorchModelHubMixin  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(NEEDED, name="huggingface_hub") from error


class Pretrained(PyTorchModelHubMixin, model_card_template=CARD):
    """`save_pretrained`, `from_pretrained` and `push_to_hub` of a model with a `config` and an `info`."""

    config: ModelConfig
    info: ModelInfo

    def save_pretrained(self, save_directory: str | os.PathLike[str], **options: Any) -> str | None:
        """Write the model into a folder: `config.json`, `model.safetensors` and, where there is none, a model card.

        Args:
            save_directory: the folder, made if need be. A model that is there is replaced, and stays if writing fails.
            options: of huggingface-hub's `save_pretrained`, as `push_to_hub` and `repo_id`.

        Example:
            >>> import tempfile, nystream as ns
            >>> cfg = ns.AttentionConfig("co-full-single", embed_dim=8, num_heads=2, window=6)
            >>> config = ns.ModelConfig(input_dim=5, output_dim=1, attention=cfg)
            >>> model = ns.StreamModel(config, ns.ModelInfo(labels=("load",), units=("MW",)))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     _ = model.save_pretrained(folder)
            ...     again = ns.StreamModel.from_pretrained(folder)
            >>> again.info.units
            ('MW',)
        """
        path = Path(save_directory) / CONFIG
        before = path.read_bytes() if path.is_file() else None
        try:
            return super().save_pretrained(save_directory, **options)
        finally:
            if before is not None and not path.exists():  # huggingface-hub removes it before anything is written
                path.write_bytes(before)

    def _save_pretrained(self, save_directory: Path) -> None:
        from safetensors.torch import save_file

        assert isinstance(self, torch.nn.Module)
        tensors = {name: x.detach().contiguous().clone() for name, x in self.state_dict().items()}
        states.replace(save_directory / WEIGHTS, lambda path: save_file(tensors, path, {"format": "pt"}))
        text = json.dumps(self._written(), indent=2, ensure_ascii=False) + "\n"
        states.replace(save_directory / CONFIG, lambda path: path.write_text(text, encoding="utf-8"))

    def _written(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "nystream": __version__,
            "config": self.config.to_dict(),
            "info": self.info.to_dict(),
        }

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | os.PathLike[str],
        *,
        device: torch.device | str = "cpu",
        **download: Any,
    ) -> Self:
        """The model in a folder, or in a repository on the hub, in eval mode.

        Args:
            pretrained_model_name_or_path: a folder that `save_pretrained` wrote, or "owner/name" on the hub.
            device: where the model goes.
            download: `revision`, `token`, `cache_dir`, `force_download`, `local_files_only` for the hub.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        config_path, weights_path = _files(pretrained_model_name_or_path, download)
        config, info = read_config(config_path)
        try:
            tensors = load_file(weights_path, device=str(device))
        except SafetensorError as error:
            raise ValueError(f"{weights_path} cannot be read as a safetensors file: {error}") from error
        weight = tensors.get("input_proj.weight")
        model: Any = cls(config, info, device=device, dtype=None if weight is None else weight.dtype)  # type: ignore[call-arg]
        try:
            model.load_state_dict(tensors)
        except RuntimeError as error:
            raise ValueError(f"{weights_path} does not hold the weights of {config_path}: {error}") from error
        return model.eval()


def read_config(path: Path) -> tuple[ModelConfig, ModelInfo]:
    """What `config.json` says; errors name the file."""
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # broken JSON, or not text at all
        raise ValueError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(written, dict) or type(written.get("format")) is not int or written["format"] < 1:
        raise ValueError(f"{path} is not the config of a nystream model; save_pretrained writes them")
    if written["format"] > FORMAT:
        raise ValueError(
            f"{path} was written by nystream {written.get('nystream', 'of a newer version')} in format "
            f"{written['format']}, but this version reads formats up to {FORMAT}: pip install --upgrade nystream"
        )
    unknown = sorted(set(written) - {"format", "nystream", "config", "info"})
    if unknown:
        raise ValueError(f"{path} has fields that are not known here: {', '.join(unknown)}")
    try:
        config: ModelConfig = ModelConfig.from_dict(written.get("config"))  # type: ignore[arg-type]
        info = ModelInfo.from_dict(written.get("info", {}))
        info.check(config.input_dim, config.output_dim)
        return config, info
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def _files(name: str | os.PathLike[str], download: dict[str, Any]) -> tuple[Path, Path]:
    """The two files of a model, from a folder or the hub."""
    unknown = sorted(set(download) - set(DOWNLOAD))
    if unknown:
        known = ", ".join(("device", *DOWNLOAD))
        raise TypeError(f"{', '.join(unknown)}: from_pretrained has no such option; it has {known}")
    folder = Path(name)
    if folder.is_dir():
        for file in (CONFIG, WEIGHTS):
            if not (folder / file).is_file():
                raise FileNotFoundError(f"{folder} has no {file}; it is not a folder that save_pretrained wrote")
        return folder / CONFIG, folder / WEIGHTS
    local = folder.exists() or not isinstance(name, str) or name.startswith((".", "/", "~")) or name.endswith("/")
    if local or str(name).count("/") != 1:
        raise FileNotFoundError(f"{os.fspath(name)} is not a folder; a model on the hub is named owner/name")
    from huggingface_hub import hf_hub_download

    try:
        config, weights = (Path(hf_hub_download(str(name), file, **download)) for file in (CONFIG, WEIGHTS))
    except (OSError, ValueError) as error:  # no connection, no such repository or file, or no name of one
        raise FileNotFoundError(f"{name} is not a folder here, and cannot be had from the hub: {error}") from error
    return config, weights
