"""The cost figure."""

import sys

import pytest

from nystream import costs
from nystream.costs import flops, plot
from nystream.variants import VARIANTS


@pytest.mark.parametrize(("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_the_same_figure_gives_the_same_file(tmp_path, suffix, begins):
    one, two = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    for path in (one, two):
        plot.draw(path, windows=(8, 40, 200))
    assert one.read_bytes().startswith(begins)
    assert one.read_bytes() == two.read_bytes()
    if suffix == ".svg":
        plot.draw(two, windows=(8, 40, 200), corrected=True)
        assert one.read_bytes() != two.read_bytes()


def test_four_panels_with_a_line_for_each_model(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **_: (drawn.append(self), path.touch()))
    plot.draw(tmp_path / "a.png", windows=(16, 64))
    operations, *rest = drawn[0].axes
    assert [len(axis.lines) for axis in (operations, *rest)] == [6] * 4
    for line, (variant, *_) in zip(operations.lines, plot.LINES, strict=True):
        assert list(line.get_ydata()) == [flops(variant, n, 200, 8) for n in (16, 64)]


def test_a_format_or_a_package_that_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"plot=a\.bmp must end in one of \.pdf, \.png, \.svg"):
        plot.draw(type(tmp_path)("a.bmp"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"'\.\[plot\]'"):
        plot.draw(tmp_path / "a.png")


def test_growth_covers_the_variants_and_the_formulas():
    """Each count is within a constant factor of its order of growth."""
    powers = str.maketrans({"²": "**2", "³": "**3", "⁴": "**4"})

    def order(text, n, d, m):
        expression = text.translate(powers).replace("nd", "n*d").replace("dm", "d*m").replace("nm", "n*m")
        expression = expression.replace("**2d", "**2*d")
        return eval(expression, {}, {"n": n, "d": d, "m": m})

    for variant in VARIANTS:
        assert costs.growth(variant)
        growth = costs.growth(variant, corrected=True)
        quotients = [
            flops(variant, n, d, m, corrected=True) / order(growth.operations, n, d, m)
            for n, d, m in ((200, 10, 100), (4000, 10, 4), (100_000, 100, 10), (100, 4000, 50))
        ]
        assert min(quotients) > 0.5, variant
        assert max(quotients) < 40, variant
