"""Saving and loading models: `config.json` and `model.safetensors`, in a folder or a Hugging Face repository.

Model cards and `push_to_hub` come from huggingface-hub. Writing does not, because huggingface-hub deletes the config of
an existing model before it writes a new one; neither does reading, because invalid files must be rejected.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from nystream import files
from nystream.config import ModelConfig, ModelInfo
from nystream.models import config_file, weights_file
from nystream.models.find import CONFIG, PACKAGED, found

if TYPE_CHECKING:
    # The real mixin does not pass strict type checks; these are the parts used here.
    class PyTorchModelHubMixin:
        def __init_subclass__(cls, **options: Any) -> None: ...

        def generate_model_card(self, **fields: Any) -> Any: ...

        def push_to_hub(self, repo_id: str, **options: Any) -> str: ...

else:
    try:
        from huggingface_hub import PyTorchModelHubMixin
    except ModuleNotFoundError:

        class PyTorchModelHubMixin:
            """Stands in for huggingface-hub, which only saving a model needs."""

            def __init_subclass__(cls, **options):
                super().__init_subclass__()

            def push_to_hub(self, repo_id, **options):
                require()


NEEDED = "save_pretrained needs huggingface-hub: pip install huggingface-hub"
WEIGHTS, CARD_FILE = "model.safetensors", "README.md"
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

`config.json` has its architecture, and the names and units of its inputs and outputs.
"""


def require() -> None:
    """Raise if models cannot be saved; called before training."""
    try:
        from huggingface_hub import PyTorchModelHubMixin  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(NEEDED, name="huggingface_hub") from error


class Pretrained(PyTorchModelHubMixin, model_card_template=CARD):
    """`save_pretrained`, `from_pretrained` and `push_to_hub`, for a model with a `config` and an `info`."""

    config: ModelConfig
    info: ModelInfo

    def save_pretrained(self, save_directory: str | os.PathLike[str], **options: Any) -> str | None:
        """Write the model to a folder: `config.json`, `model.safetensors` and, if there is none yet, a model card.

        Args:
            save_directory: The folder, created if necessary. An existing model is replaced; if writing fails, it
                remains.
            options: The options of huggingface-hub's `save_pretrained`: `push_to_hub`, `repo_id`, `model_card_kwargs`,
                and those of `push_to_hub`.

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
        card_fields = options.pop("model_card_kwargs", None) or {}
        if not card.exists():
            files.replace(card, self.generate_model_card(**card_fields).save)
        options.pop("config", None)  # already in config.json
        name = options.pop("repo_id", None)
        if not options.pop("push_to_hub", False):
            return None
        return self.push_to_hub(name or folder.name, model_card_kwargs=card_fields, **options)

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
        """Load a model from a folder or a repository on the Hugging Face hub. The model is in eval mode.

        Its dtype is that of the weights or, if they differ, the narrowest dtype that can represent all of them.

        Args:
            pretrained_model_name_or_path: A folder written by `save_pretrained`, a run folder that contains one as
                `model`, "demand" (a small model that comes with the package), or "owner/name" on the hub.
            device: Device of the model.
            download: Options of the download: `revision`, `token`, `cache_dir`, `force_download`, `local_files_only`.

        Raises:
            ValueError: If a file is damaged, config and weights do not match, or a weight is not finite.
            FileNotFoundError: If there is no such model.
        """
        config_path, weights_path = _files(pretrained_model_name_or_path, download)
        config, info = config_file.read(config_path)
        tensors, dtype = weights_file.load(weights_path, config, config_path, device)
        model: Any = cls(config, info, device=device, dtype=dtype)  # type: ignore[call-arg]
        weights_file.fill(model, tensors, weights_path, config_path)
        return model.eval()


def _files(name: str | os.PathLike[str], download: dict[str, Any]) -> tuple[Path, Path]:
    """Return the paths of config and weights, from a folder or the hub."""
    unknown = sorted(set(download) - set(DOWNLOAD))
    if unknown:
        known = ", ".join(("device", *DOWNLOAD))
        raise TypeError(f"from_pretrained got unexpected options: {', '.join(unknown)}; it takes {known}")
    folder = found(name) or Path(name)
    if folder.is_dir():
        for file in (CONFIG, WEIGHTS):
            if not (folder / file).is_file():
                raise FileNotFoundError(f"{folder} has no {file}; it is not a folder written by save_pretrained")
        return folder / CONFIG, folder / WEIGHTS
    local = folder.exists() or not isinstance(name, str) or name.startswith((".", "/", "~")) or name.endswith("/")
    if local or str(name).count("/") != 1:
        raise FileNotFoundError(
            f"{os.fspath(name)} is not a folder; a model on the hub is named owner/name, and the package has "
            f"{', '.join(PACKAGED)}"
        )
    from huggingface_hub import hf_hub_download

    try:
        config, weights = (Path(hf_hub_download(str(name), file, **download)) for file in (CONFIG, WEIGHTS))
    except (OSError, ValueError) as error:  # no connection, no such repository or file, or an invalid name
        raise FileNotFoundError(f"{name} is not a folder, and cannot be downloaded from the hub: {error}") from error
    return config, weights
