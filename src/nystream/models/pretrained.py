"""Models as files: `config.json` and `model.safetensors` in a folder, or in a repository on a hub. No pickle.

Model cards and `push_to_hub` are huggingface-hub's. Writing is ours, because huggingface-hub removes the config of the
model that is there before it writes; and so is reading, because what is not understood must be refused.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from nystream import files
from nystream.config import ModelConfig, ModelInfo
from nystream.models import config_file, weights_file

if TYPE_CHECKING:
    # The real mixin is not typed strictly; this is what of it is used here.
    class PyTorchModelHubMixin:
        def __init_subclass__(cls, **about: Any) -> None: ...

        def generate_model_card(self, **about: Any) -> Any: ...

        def push_to_hub(self, repo_id: str, **options: Any) -> str: ...

else:
    try:
        from huggingface_hub import PyTorchModelHubMixin
    except ModuleNotFoundError:

        class PyTorchModelHubMixin:
            """Models train, stream and load without huggingface-hub; saving them needs it."""

            def __init_subclass__(cls, **about):
                super().__init_subclass__()

            def push_to_hub(self, repo_id, **options):
                require()


NEEDED = "save_pretrained needs huggingface-hub: pip install huggingface-hub"
CONFIG, WEIGHTS, CARD_FILE = "config.json", "model.safetensors", "README.md"
INSIDE = "model"  # where a run folder has its model
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
            options: of huggingface-hub's `save_pretrained`: `push_to_hub`, `repo_id`, `model_card_kwargs`, and those
                of `push_to_hub`.

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
        require()
        folder, card = Path(save_directory), Path(save_directory) / CARD_FILE
        folder.mkdir(parents=True, exist_ok=True)
        self._save_pretrained(folder)
        about = options.pop("model_card_kwargs", None) or {}
        if not card.exists():
            files.replace(card, self.generate_model_card(**about).save)
        options.pop("config", None)  # config.json has it
        name = options.pop("repo_id", None)
        if not options.pop("push_to_hub", False):
            return None
        return self.push_to_hub(name or folder.name, model_card_kwargs=about, **options)

    def _save_pretrained(self, save_directory: Path) -> None:
        from safetensors.torch import save_file

        assert isinstance(self, torch.nn.Module)
        tensors = {name: x.detach().contiguous().clone() for name, x in self.state_dict().items()}
        weights_file.check_values(tensors, "the model")
        text = config_file.text(self.config, self.info)
        files.replace(save_directory / WEIGHTS, lambda path: save_file(tensors, path, {"format": "pt"}))
        files.write_text(save_directory / CONFIG, text)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | os.PathLike[str],
        *,
        device: torch.device | str = "cpu",
        **download: Any,
    ) -> Self:
        """The model in a folder, or in a repository on the hub, in eval mode.

        It has the dtype of the weights; where they differ, the narrowest that holds them all. A config that does not
        go with the weights is refused before anything is built, and so are weights that are not finite.

        Args:
            pretrained_model_name_or_path: a folder that `save_pretrained` wrote, a run folder that has one as `model`,
                or "owner/name" on the hub.
            device: where the model goes.
            download: `revision`, `token`, `cache_dir`, `force_download`, `local_files_only` for the hub.
        """
        config_path, weights_path = _files(pretrained_model_name_or_path, download)
        config, info = config_file.read(config_path)
        tensors, dtype = weights_file.load(weights_path, config, config_path, device)
        model: Any = cls(config, info, device=device, dtype=dtype)  # type: ignore[call-arg]
        weights_file.fill(model, tensors, weights_path, config_path)
        return model.eval()


def _files(name: str | os.PathLike[str], download: dict[str, Any]) -> tuple[Path, Path]:
    """The two files of a model, from a folder or the hub."""
    unknown = sorted(set(download) - set(DOWNLOAD))
    if unknown:
        known = ", ".join(("device", *DOWNLOAD))
        raise TypeError(f"{', '.join(unknown)}: from_pretrained has no such option; it has {known}")
    folder = Path(name)
    if folder.is_dir():
        if not (folder / CONFIG).is_file() and (folder / INSIDE / CONFIG).is_file():
            folder /= INSIDE
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
