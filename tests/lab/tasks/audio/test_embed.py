import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from nystream.lab.tasks import audio
from nystream.lab.tasks.audio import VGGish, YAMNet, parameters_of
from nystream.lab.tasks.audio.embed import Embedder
from nystream.lab.tasks.audio.weights import read_weights

RATE = 16000


def random_weights(network, seed=0):
    """Weights that preserve the scale of their inputs, under the documented names."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name, shape in parameters_of(network).items():
        value = torch.randn(shape, generator=generator)
        if name.endswith("running_var"):
            value = 0.5 + value.abs()
        elif len(shape) > 1:
            value *= (2 / value[0].numel()) ** 0.5
        found[name] = value if len(shape) > 1 or "running_var" in name else 1 + 0.1 * value
    return found


def test_documented_names_and_shapes():
    vggish = parameters_of(VGGish)
    convolutions = {0: (64, 1), 3: (128, 64), 6: (256, 128), 8: (256, 256), 11: (512, 256), 13: (512, 512)}
    expected = {f"features.{i}.weight": (*widths, 3, 3) for i, widths in convolutions.items()}
    expected |= {f"features.{i}.bias": widths[:1] for i, widths in convolutions.items()}
    for i, (wide, narrow) in {0: (4096, 12288), 2: (4096, 4096), 4: (128, 4096)}.items():
        expected |= {f"embeddings.{i}.weight": (wide, narrow), f"embeddings.{i}.bias": (wide,)}
    assert vggish == expected
    yamnet = parameters_of(YAMNet)
    assert yamnet["layer1.fused.conv.weight"] == (32, 1, 3, 3)
    assert yamnet["layer2.depthwise_conv.conv.weight"] == (32, 1, 3, 3)
    assert yamnet["layer2.pointwise_conv.conv.weight"] == (64, 32, 1, 1)
    assert yamnet["layer13.pointwise_conv.conv.weight"] == (1024, 512, 1, 1)
    assert yamnet["layer14.pointwise_conv.bn.running_var"] == (1024,)
    assert len(yamnet) == 27 * 5
    # The sizes that the networks are known by; YAMNet's with its 521 classes, and without factors that are all one
    assert sum(np.prod(shape) for shape in vggish.values()) == 72_141_184
    counted = sum(np.prod(shape) for name, shape in yamnet.items() if not name.endswith("bn.weight"))
    assert counted + 521 * 1025 == 3_751_369


@pytest.fixture(scope="module")
def yamnet_weights():
    return random_weights(YAMNet)


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_yamnet_from_a_file(tmp_path, yamnet_weights, suffix):
    path = tmp_path / f"yamnet.{suffix}"
    more = {"classifier.weight": torch.zeros(521, 1024), "layer1.fused.bn.num_batches_tracked": torch.tensor(7)}
    held = yamnet_weights | more
    if suffix == "npz":
        np.savez(path, **{name: value.numpy() for name, value in held.items()})
    else:
        save_file(held, path)
    network = YAMNet.from_file(path)
    assert not network.training
    assert not any(p.requires_grad for p in network.parameters())
    for name, value in network.state_dict().items():
        if "num_batches" not in name:
            assert torch.equal(value, yamnet_weights[name])
    samples = 0.1 * torch.randn(RATE)
    tokens = network(samples)
    assert tokens.shape == (4, 1024)
    # A token depends on the 15600 samples before its end, and on nothing else.
    longer = torch.cat([torch.randn(4000), samples, torch.randn(100)])
    assert torch.allclose(network(longer)[4], tokens[3], atol=1e-5)
    assert not torch.allclose(network(longer)[3], tokens[2], atol=1e-3)


def test_yamnet_is_its_description(yamnet_weights, tmp_path):
    """Against a plain computation: padding as in TensorFlow, normalisation written out."""
    held = {name: value for name, value in yamnet_weights.items() if not name.endswith("bn.weight")}
    save_file(held, tmp_path / "yamnet.safetensors")
    network = YAMNet.from_file(tmp_path / "yamnet.safetensors").double()
    patch = torch.randn(2, 1, 96, 64, dtype=torch.float64)

    def convolve(x, name, stride, groups):
        weight = held[f"{name}.conv.weight"].double()
        size = weight.shape[-1]
        pads = []
        for length in reversed(x.shape[-2:]):
            total = max((-(-length // stride) - 1) * stride + size - length, 0)
            pads += [total // 2, total - total // 2]
        x = F.conv2d(F.pad(x, pads), weight, stride=stride, groups=groups)
        bias, mean, var = (
            held[f"{name}.bn.{part}"].double()[:, None, None] for part in ("bias", "running_mean", "running_var")
        )
        return ((x - mean) / (var + 1e-4).sqrt() + bias).clamp_min(0)

    x = convolve(patch, "layer1.fused", 2, 1)
    for layer in range(2, 15):
        x = convolve(x, f"layer{layer}.depthwise_conv", 2 if layer in (3, 5, 7, 13) else 1, x.shape[1])
        x = convolve(x, f"layer{layer}.pointwise_conv", 1, 1)
    assert x.shape == (2, 1024, 3, 2)
    assert torch.allclose(network.patch_token(patch), x.mean((2, 3)), atol=1e-9)


def test_vggish_is_its_description():
    """The convolutions against a plain computation, and the dense layers after them with the channels innermost."""
    with torch.device("meta"):
        network = VGGish()
    assert network.patch_token(torch.zeros(3, 1, 96, 64, device="meta")).shape == (3, 128)
    network.features.to_empty(device="cpu")
    held = {name: value for name, value in network.state_dict().items() if name.startswith("features.")}
    with torch.no_grad():
        for value in held.values():
            value.normal_(std=(2 / (9 * value.shape[-3])) ** 0.5 if value.dim() == 4 else 0.1)
    network.embeddings = torch.nn.Identity()
    patch = torch.randn(2, 1, 96, 64)
    x = patch
    for i, halved in ((0, True), (3, True), (6, False), (8, True), (11, False), (13, True)):
        x = F.conv2d(x, held[f"features.{i}.weight"], held[f"features.{i}.bias"], padding=1).clamp_min(0)
        x = x.unflatten(3, (-1, 2)).unflatten(2, (-1, 2)).amax((3, 5)) if halved else x
    assert x.shape == (2, 512, 6, 4)
    flat = network.patch_token(patch)
    assert flat.shape == (2, 12288)
    assert torch.allclose(flat.unflatten(1, (6, 4, 512)).permute(0, 3, 1, 2), x, atol=1e-4)


class Small(Embedder):
    """Two tensors: errors about names and shapes do not need a large network."""

    dim = 2
    offset = 0.01
    unneeded = ("head.",)

    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(64, 2)

    def patch_token(self, patch):
        return self.dense(patch.mean((1, 2)))


GOOD = {"dense.weight": torch.ones(2, 64), "dense.bias": torch.zeros(2)}


def test_a_small_network_works(tmp_path):
    save_file(GOOD | {"head.bias": torch.zeros(1)}, tmp_path / "w.safetensors")
    assert Small.from_file(tmp_path / "w.safetensors")(torch.zeros(8000)).shape == (2, 2)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"dense.bias": torch.zeros(2)}, r"does not have the weights of Small: it lacks dense\.weight$"),
        (GOOD | {"odd": torch.zeros(2)}, "it has odd, which the network does not have"),
        (GOOD | {"dense.bias": torch.zeros(3)}, r"dense\.bias is \[3\], but must be \[2\]"),
        (GOOD | {"dense.bias": torch.zeros(2, dtype=torch.int64)}, r"dense\.bias must have finite .* is torch\.int64"),
        (GOOD | {"dense.bias": torch.tensor([0, torch.nan])}, r"dense\.bias must have finite"),
        ({f"layer{i}": torch.zeros(1) for i in range(9)}, "layer3 and 5 more, which the network does not have"),
    ],
)
def test_wrong_weights(tmp_path, weights, message):
    save_file(weights, tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=message):
        Small.from_file(tmp_path / "w.safetensors")


def test_wrong_files(tmp_path):
    with pytest.raises(ValueError, match=r"vggish\.pth must be a \.safetensors or \.npz file"):
        VGGish.from_file(tmp_path / "vggish.pth")
    for suffix in ("npz", "safetensors"):
        path = tmp_path / f"w.{suffix}"
        with pytest.raises(FileNotFoundError, match="weights are not downloaded"):
            VGGish.from_file(path)
        path.write_bytes(b"something else")
        with pytest.raises(ValueError, match=rf"w\.{suffix} cannot be read"):
            VGGish.from_file(path)
    np.savez(tmp_path / "w.npz", names=np.array(["text"]))
    with pytest.raises(ValueError, match="cannot be read"):
        read_weights(tmp_path / "w.npz")


def test_one_door(tmp_path, means):
    noise = 0.1 * np.random.default_rng(0).standard_normal(480000)
    for genre in ("blues", "jazz"):
        (tmp_path / genre).mkdir()
        soundfile.write(tmp_path / genre / f"{genre}.00000.au", noise, RATE)
    data = audio.load(tmp_path, means, show=False)
    assert data.x.shape == (2, 120, 64)
    assert not data.x.requires_grad
    assert means.training
    assert torch.equal(data.x[0], data.x[1])
    assert len(set(data.copies)) == 1
