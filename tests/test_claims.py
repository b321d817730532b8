"""What the pages say about results is computed from the records, and nothing else is said."""

import importlib.util
import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from jinja2 import Environment, nodes
from scipy import stats

ROOT = Path(__file__).parent.parent
TEMPLATE = ROOT / "docs" / "claims.md.jinja"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NUMBER = re.compile(r"(?<![A-Za-z\d])\d")  # not that of THUMOS14
IN_WORDS = re.compile(r"\b(half|third|fourth|quarter|fifth|tenth|twice|double[sd]?|(?<!\x00 )times)\b")
UP = re.compile(
    r"\b(ahead|gain\w*|leads?|beats?|help\w*|prefer\w*|improve\w*|better|faster|(more|higher) \w+|wins?|won)\b"
)
DOWN = re.compile(r"\b(behind|los(es?|t)|shr[aiu]nk\w*|worse\w*|slower|(less|lower) \w+|fell|falls?|drop\w*)\b")
CHECKED = {"certainly", "uncertainly", "nowhere", "gain", "gains", "loss", "lead", "margin"}
fake = runpy.run_path(str(ROOT / "tests" / "lab" / "reproduce" / "fake_records.py"))


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    spec = importlib.util.spec_from_file_location("docs_claims", ROOT / "docs" / "_claims.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def claims(module, tmp_path):
    """Claims about made-up records: a GRU that scores 0.5, and for each name a model that scores more by these values.

    They are over splits, or over seeds on electricity.
    """

    def claims(**models):
        for place, (name, (task, values)) in enumerate(models.items()):
            one_split = task == "electricity"
            runs = {"splits": 1, "seeds": len(values)} if one_split else {"splits": len(values), "seeds": 1}
            ours = fake["cell"](task, suffix=f"-{name}", dropout=place / 10, **runs)
            for raw, scores in ((fake["cell"](task, "gru", **runs), np.zeros(len(values))), (ours, np.array(values))):
                raw["metrics"] = raw["valid"] = {raw["metric"]: fake["scores"]([*(0.5 + scores)])}
                (tmp_path / f"{raw['name']}.json").write_text(json.dumps(raw))
        return module.Claims(tmp_path)

    return claims


PLAIN = [0.10, 0.14, 0.02, 0.11, 0.01]  # over five splits, the plain interval excludes zero, the corrected one does not
CLEAR = [0.10, 0.11, 0.09, 0.10, 0.12]


def outside_blocks(text):
    """Without what `docs/render.py` writes, and without code."""
    text = re.sub(r"<!-- ([\w-]+) -->\n.*?<!-- /\1 -->", "", text, flags=re.S)
    return re.sub(r"`[^`]*`", "", re.sub(r"```.*?```", "", text, flags=re.S))


def section(page, heading):
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.S | re.M)
    assert found, heading
    return found[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_is_called_certain_by_hand(page):
    assert re.findall(r".*\bcertain.*", outside_blocks(page.read_text("utf-8"))) == []


@pytest.mark.parametrize(("page", "heading"), [("README.md", "Results"), ("docs/results.md", "What was found")])
def test_no_result_is_written_by_hand(page, heading):
    rest = outside_blocks(section((ROOT / page).read_text("utf-8"), heading))
    assert [line for line in rest.splitlines() if NUMBER.search(line) or IN_WORDS.search(line)] == []


def clauses(template):
    """The text between full stops, colons and semicolons, with \\0 for each {{ }}, and the expressions in these."""
    for output in Environment().parse(template).find_all(nodes.Output):
        is_text = [isinstance(node, nodes.TemplateData) for node in output.nodes]
        text = "".join(node.data if plain else "\0" for node, plain in zip(output.nodes, is_text, strict=True))
        expressions = iter([node for node, plain in zip(output.nodes, is_text, strict=True) if not plain])
        for clause in re.split(r"(?<=[.;:])\**\s|\n(?=\n|- )", text):
            yield " ".join(clause.split()), [next(expressions) for _ in range(clause.count("\0"))]


def unchecked(text, expressions):
    """Whether a clause has a number or a direction that no function has checked."""
    calls = []
    for node in expressions:
        match node:  # a constant or a variable could be anything
            case nodes.Call(node=nodes.Getattr(node=nodes.Name(name="say"), attr=function)):
                calls.append((function, [*node.args, *node.kwargs]))
            case _:
                return True
    if NUMBER.search(text) or IN_WORDS.search(text) or "certain" in text:
        return True
    used, up, down = {function for function, _ in calls}, bool(UP.search(text)), bool(DOWN.search(text))
    gains = [own for function, own in calls if function == "gain"]
    gains += [[own[1], own[0], *own[2:]] for function, own in calls if function == "loss"]
    return (
        ((up or down) and (not used & CHECKED or bool(used & {"by", "corrected"})))
        or (bool(used & {"gain", "gains", "lead"}) and not up)
        or (bool(used & {"loss", "margin"}) and not down)
        or any(function.endswith("certainly") and gains and own not in gains for function, own in calls)
    )


def test_sentences_have_no_number_or_direction_of_their_own():
    assert [text for text, expressions in clauses(TEMPLATE.read_text("utf-8")) if unchecked(text, expressions)] == []


@pytest.mark.parametrize(
    "sentence",
    [
        "A step takes a third of the GRU's time.",
        "A step is far more accurate.",
        "A step takes three times as long.",
        "With a window of one token, full attention loses, {{ say.by(full, one) }}.",
        "With a window of one token, full attention loses, {{ say.gain(full, one) }}.",
        "The lead of low rank, {{ say.gain(a, b) }}, shrank to {{ say.by(a, c) }}.",
        "Low rank is ahead.",
        "Low rank is {{ say.certainly(a, b) }} ahead, {{ say.by(b, a) }}.",
        "Low rank is {{ say.certainly(a, b) }} ahead, {{ say.gain(a, c) }}.",
        "Low rank is {{ say.certainly(a, b) }} behind, {{ say.gain(a, b) }}.",
        'Low rank differs {{ "certainly" }}.',
        "Low rank has {{ 42 }}.",
        'Low rank differs {{ say.seeds(a) and "certainly" }}.',
        '{% set word = "certainly" %}Low rank differs {{ word }}.',
    ],
)
def test_a_number_or_a_direction_that_is_not_checked_is_found(sentence):
    assert any(unchecked(*clause) for clause in clauses(sentence))


def test_a_direction_needs_a_difference_of_its_sign(module, claims):
    say = claims(ours=("gtzan", CLEAR), low=("electricity", [-0.5, -0.51, -0.49, -0.5, -0.52]))  # of MSE
    for task, name in (("gtzan", "gtzan-1-co-fixed-ours"), ("electricity", "electricity-1-co-fixed-low")):
        gru = f"{task}-1-gru"
        assert say.gain(name, gru) == say.by(name, gru)
        assert say.loss(gru, name) == say.by(gru, name)
        assert say.gains([(name, gru)])
        for function, pair in ((say.gain, (gru, name)), (say.loss, (name, gru)), (say.gains, ([(gru, name)],))):
            with pytest.raises(module.FalseClaimError):
                function(*pair)


def test_only_what_the_corrected_interval_says_is_certain(module, claims):
    say = claims(clear=("gtzan", CLEAR), plain=("gtzan", PLAIN))
    gru, clear, plain = "gtzan-1-gru", "gtzan-1-co-fixed-clear", "gtzan-1-co-fixed-plain"
    found = say.difference(plain, gru)
    assert found.plain < found.mean < found.high - found.mean
    assert say.certainly(clear, gru) == "certainly"
    assert say.uncertainly(plain, gru) == "not certainly"
    assert say.nowhere((plain, gru), (gru, clear)) == "nowhere certainly"
    assert say.margin(gru, clear).startswith("10.40 ± ")
    untrue = (
        lambda: say.certainly(plain, gru),
        lambda: say.certainly(gru, clear),
        lambda: say.uncertainly(clear, gru),
        lambda: say.nowhere((plain, gru), (clear, gru)),
        lambda: say.margin(clear, gru),
        lambda: say.best_valid(plain),
    )
    for claim in untrue:
        with pytest.raises(module.FalseClaimError):
            claim()


def p_value(values, ratio):
    t = np.mean(values) / (np.std(values, ddof=1) * (1 / len(values) + ratio) ** 0.5)
    return 2 * stats.t.sf(abs(t), len(values) - 1)


def test_three_claims_need_holms_correction(module, claims):
    values = {"gtzan": [0.5, 0.9, 0.1, 0.7, 0.6], "thumos14": [0.5, 0.9, 0.1, 0.7, 0.6]}
    values["electricity"] = [-0.5, -0.51, -0.49, -0.5, -0.52]  # lower is better
    say = claims(**{task: (task, own) for task, own in values.items()})
    ratios = {"gtzan": 10 / 72, "thumos14": 28 / 160, "electricity": 0.0}
    raw = {task: p_value(own, ratios[task]) for task, own in values.items()}
    assert raw["electricity"] < raw["gtzan"] < raw["thumos14"] < 0.05 < 2 * raw["gtzan"]
    adjusted = say.holm()
    assert adjusted["electricity"] == pytest.approx(3 * raw["electricity"])
    assert adjusted["gtzan"] == adjusted["thumos14"] == pytest.approx(2 * raw["gtzan"])  # never less than one before
    assert say.holds(adjusted) == "electricity alone"
    assert say.lead("gtzan").startswith("+56.00 (+")
    with pytest.raises(module.FalseClaimError, match="Holm"):
        say.lead("electricity")


def scores(name):
    raw = json.loads((ROOT / "results" / f"{name}.json").read_text("utf-8"))
    return np.array(raw["metrics"][raw["metric"]]["values"]).reshape(-1, 5) * 100  # [splits, seeds]


@pytest.mark.parametrize(
    ("first", "second", "ratio"),
    [
        ("gtzan-2-co-fixed-noinverse-by-x-learned-distilled-deep-at-once", "gtzan-1-gru", 10 / 72),
        (
            "thumos14-2-co-fixed-n256-noinverse-by-x-learned-deep-decay-at-once-one-scale",
            "thumos14-1-gru-one-scale",
            28 / 160,
        ),
    ],
)
def test_the_readme_has_the_corrected_intervals(first, second, ratio):
    values = (scores(first) - scores(second)).mean(1)
    half = stats.t.ppf(0.975, 4) * values.std(ddof=1) * (1 / 5 + ratio) ** 0.5
    interval = f"+{values.mean():.2f} (+{values.mean() - half:.2f} to +{values.mean() + half:.2f})"
    assert interval in section((ROOT / "README.md").read_text("utf-8"), "Results")
