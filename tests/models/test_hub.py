"""Models by name: folders, repositories on the hub, and names that are neither."""

import shutil

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError

import nystream as ns


@pytest.fixture
def folder(build, tmp_path):
    """A folder with a model in it."""
    build("co-fixed-single").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def refused(name, *words):
    with pytest.raises(FileNotFoundError) as caught:
        ns.StreamModel.from_pretrained(name)
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in: {caught.value}"


@pytest.mark.parametrize(
    "name", ["models/foo/bar", "./x", "../x", "~/x", "/nowhere/x", "x", "models/", "a//b", ".", "", "a\\b"]
)
def test_a_path_that_is_mistyped_does_not_reach_a_network(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        ns.StreamModel.from_pretrained(name)
    message = str(caught.value)
    assert "is not a folder; a model on the hub is named owner/name" in message or "has no config.json" in message
    assert name in message


def test_a_path_object_is_never_a_name_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(tmp_path.relative_to(tmp_path) / "owner" / "name", "owner/name is not a folder")


def test_a_file_is_no_name_on_the_hub(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    refused("model/config.json", "model/config.json is not a folder")


def test_the_model_of_the_package(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    packaged = ns.StreamModel.from_pretrained("demand")
    assert packaged.info.reader["kind"] == "table"
    (folder.parent / "demand").mkdir()  # a folder without a model does not hide it
    assert ns.StreamModel.from_pretrained("demand").config == packaged.config
    folder.rename("demand/model")
    assert ns.StreamModel.from_pretrained("demand").config.attention.variant == "co-fixed-single"
    refused("demnd", "the package has demand")


@pytest.mark.parametrize("name", [None, 5])
def test_a_name_is_a_name(name):
    with pytest.raises(TypeError):
        ns.StreamModel.from_pretrained(name)


@pytest.mark.parametrize(
    "error",
    [
        LocalEntryNotFoundError("we cannot find the requested files in the local cache"),
        HFValidationError("Repo id must use alphanumeric chars"),
        ConnectionError("name or service not known"),
    ],
)
def test_a_name_that_cannot_be_had_says_both(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    words = ("owner/name is not a folder", "cannot be downloaded from the hub", str(error))
    refused("owner/name", *words)
    assert issubclass(RepositoryNotFoundError, OSError)  # so it is caught as the others are


def test_a_model_comes_from_the_hub(build, folder, monkeypatch):
    asked = []

    def download(repo_id, filename, **options):
        asked.append((repo_id, filename, options))
        return str(folder / filename)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    model = ns.StreamModel.from_pretrained("owner/name", revision="v1", token=False)
    held = ns.StreamModel.from_pretrained(folder).state_dict()
    assert model.state_dict().keys() == held.keys()
    assert all(torch.equal(x, held[name]) for name, x in model.state_dict().items())
    options = {"revision": "v1", "token": False}
    assert asked == [("owner/name", "config.json", options), ("owner/name", "model.safetensors", options)]


def test_a_folder_goes_before_the_hub(folder, monkeypatch, tmp_path):
    shutil.copytree(folder, tmp_path / "owner" / "name")
    monkeypatch.chdir(tmp_path)
    ns.StreamModel.from_pretrained("owner/name")


def test_a_model_goes_to_the_hub(build, monkeypatch):
    sent = []

    class Api:
        def __init__(self, **_):
            pass

        def create_repo(self, repo_id, **_):
            return huggingface_hub.RepoUrl(f"https://huggingface.co/{repo_id}")

        def upload_folder(self, *, repo_id, folder_path, **_):
            sent.append((repo_id, sorted(path.name for path in folder_path.iterdir())))

    monkeypatch.setattr(huggingface_hub.hub_mixin, "HfApi", Api)
    build().push_to_hub("owner/name")
    assert sent == [("owner/name", ["README.md", "config.json", "model.safetensors"])]
