import json
import pickle
import pydoc
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import nystream as ns
from nystream.cli import main
from nystream.data.settings import CONFIG, read_config

SMALL = {"epochs": 2, "embed_dim": 8, "num_heads": 2, "window": 8}


def demand(rows=400):
    noise = np.random.default_rng(0).normal(size=rows)
    return pl.DataFrame(
        {
            "time": [datetime(2024, 1, 1) + timedelta(hours=i) for i in range(rows)],
            "load": 50 + 10 * np.sin(np.arange(rows) / 24 * 2 * np.pi) + noise,
            "other": noise[::-1],
        }
    )


@pytest.mark.parametrize("kind", [ns.Forecaster, ns.Detector, ns.Classifier])
def test_help_says_what_every_parameter_means(kind):
    shown = " ".join(pydoc.plain(pydoc.render_doc(kind)).replace(" |  ", " ").split())
    assert " Args: " in shown.partition("Example:")[0]
    assert all(f" {name}: " in shown for name in kind().get_params())
    assert (
        "dropout: Dropout while training, from 0 to 1. (default: 0.1, or 0 for forecasts with `linear='no'`)" in shown
    )
    assert "window: Window length n, in tokens. (default: 48 to 96 rows" in shown
    assert "option(" not in shown


@pytest.fixture(scope="module")
def forecaster():
    return ns.Forecaster(target="load", horizon=2, **SMALL).fit(demand()[:300])


@pytest.fixture(scope="module")
def clips():
    rng = np.random.default_rng(1)
    y = np.array(["rain", "sun", "wind"])[np.arange(45) % 3]
    return [rng.normal(size=(rng.integers(5, 12), 4)) + 2 * (i % 3) for i in range(45)], y


def test_a_forecast_is_in_the_users_units_and_reaches_beyond_the_table(forecaster):
    new = demand()[300:]
    forecasts = forecaster.predict(new)
    assert forecasts.shape == (100,)
    truth = new["load"].to_numpy()[2:]
    assert np.abs(forecasts[20:-2] - truth[20:]).mean() < np.abs(new["load"].to_numpy()[20:-2] - truth[20:]).mean()
    assert 0.5 < forecaster.score(new) <= 1
    assert set(forecaster.scores_) == {"valid", "test"}
    assert "ridge" in forecaster.scores_["test"]


def test_files_and_frames_give_the_same(forecaster, tmp_path):
    demand()[300:].write_csv(tmp_path / "new.csv")
    frame, file = forecaster.predict(demand()[300:]), forecaster.predict(tmp_path / "new.csv")
    np.testing.assert_allclose(frame, file, rtol=1e-6)  # a CSV file has fewer digits


def test_live_records_get_the_answers_of_predict(forecaster):
    new, live = demand()[300:330], forecaster.sessions()
    answers = [answer.values for row in new.iter_rows(named=True) for answer in live.take("here", row)]
    np.testing.assert_allclose(np.concatenate(answers), forecaster.predict(new), rtol=1e-5)


def test_save_and_load(forecaster, tmp_path):
    forecaster.save(tmp_path / "saved")
    loaded = ns.Forecaster.load(tmp_path / "saved")
    assert loaded.get_params() == forecaster.get_params()
    assert loaded.scores_ == forecaster.scores_
    np.testing.assert_array_equal(loaded.predict(demand()[300:]), forecaster.predict(demand()[300:]))
    with pytest.raises(FileExistsError, match="saved has a run or an estimator already"):
        forecaster.save(tmp_path / "saved")
    with pytest.raises(ValueError, match=r"Detector is for detection, but .* is for forecasting"):
        ns.Detector.load(tmp_path / "saved")


def test_the_command_and_the_estimator_train_the_same_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    demand()[:300].write_csv("demand.csv")
    options = ["--target", "load", "--epochs", "2", "--embed-dim", "8", "--num-heads", "2", "--window", "8"]
    assert main(["train", "demand.csv", *options, "--out", "run", "--plain"]) == 0
    lines = []
    fitted = ns.Forecaster(target="load", **SMALL).fit("demand.csv", out=tmp_path / "own", log=lines.append)
    loaded = ns.Forecaster.load("run")
    assert loaded.target == "load"
    assert loaded.scores_ == fitted.scores_
    np.testing.assert_array_equal(loaded.predict("demand.csv"), fitted.predict("demand.csv"))
    assert (tmp_path / "own" / CONFIG).is_file()
    assert any("ridge regression" in line for line in lines)
    assert capsys.readouterr().out.count("ridge regression") >= 1


def test_targets_that_are_aligned_with_rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)).astype(np.float32)
    y = np.stack([x[:, 0] + np.r_[0, x[:-1, 1]], 100 + 5 * x[:, 2]], 1)  # the first needs the row before
    model = ns.Forecaster(**SMALL).fit(x[:200], y[:200])
    assert model.predict(x[200:]).shape == (100, 2)
    assert model.score(x[200:], y[200:]) > 0.9
    live = model.sessions()
    answers = [answer.values for row in x[200:220] for answer in live.take("here", row.tolist())]
    np.testing.assert_allclose(answers, model.predict(x[200:220]), rtol=1e-5, atol=1e-5)


def test_several_streams_with_classes_of_frames():
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 3, 6).repeat(10) for _ in range(6)]
    x = [np.eye(3)[one] + 0.3 * rng.normal(size=(60, 3)) for one in y]
    detector = ns.Detector(**SMALL).fit(x[:5], y[:5])
    (predicted,) = detector.predict(x[5:])
    assert predicted.shape == (60,)
    assert detector.score(x[5:], y[5:]) > 0.8
    with pytest.raises(ValueError, match=r"y has 59 labels for stream 1, but it has 60 frames"):
        detector.fit(x[:2], [y[0], y[1][:-1]])


def test_frames_with_several_classes_at_once():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (30, 2)).repeat(10, 0)
    detector = ns.Detector(**SMALL).fit(y + 0.2 * rng.normal(size=y.shape), y)
    assert detector.model_.info.several
    assert set(np.unique(detector.predict(y))) <= {0, 1}
    assert detector.score(y, y) > 0.9
    with pytest.raises(ValueError, match="must be zeros and ones"):
        detector.fit(y, 2 * y)


def test_unknown_frames():
    y = np.r_[np.arange(3).repeat(40), np.full(20, -1), np.arange(3).repeat(20)]
    x = np.eye(3)[y.clip(0)] + 0.1
    detector = ns.Detector(**SMALL).fit(x, y)
    assert detector.classes_.tolist() == [0, 1, 2]
    assert detector.score(x, y) > 0.8


def test_a_class_per_stream(clips, tmp_path):
    x, y = clips
    classifier = ns.Classifier(**SMALL).fit(x[:36], y[:36])
    assert classifier.score(x[36:], y[36:]) > 0.8
    assert classifier.predict_proba(x[36:]).shape == (9, 3)
    classifier.save(tmp_path / "saved")
    loaded = ns.Classifier.load(tmp_path / "saved")
    assert loaded.classes_.tolist() == ["rain", "sun", "wind"]
    assert loaded.predict(x[36:]).tolist() == classifier.predict(x[36:]).tolist()
    with pytest.raises(ValueError, match="data has 3 features, but Classifier was fitted to 4"):
        loaded.predict([one[:, :3] for one in x])


def test_a_folder(clips, tmp_path):
    x, y = clips
    for i, (one, label) in enumerate(zip(x, y, strict=True)):
        (tmp_path / "clips" / label).mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "clips" / label / f"{i}.npy", one)
    classifier = ns.Classifier(**SMALL).fit(tmp_path / "clips")
    labels = classifier.predict(tmp_path / "clips")
    assert labels["rain/0.npy"] in ("rain", "sun", "wind")
    assert classifier.score(tmp_path / "clips") > 0.8
    scores = classifier.evaluate(tmp_path / "clips")
    assert scores["model"]["accuracy at the end of a file"] == classifier.score(tmp_path / "clips")
    with pytest.raises(ValueError, match=r"Detector is for detection, but .* is for classification"):
        ns.Detector(**SMALL).fit(tmp_path / "clips")


def test_parameters_are_kept_as_given(forecaster):
    copy = clone(forecaster)
    assert copy.get_params() == forecaster.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(demand())
    assert pickle.loads(pickle.dumps(forecaster)).score(demand()) == forecaster.score(demand())
    assert repr(ns.Forecaster(target="load")) == "Forecaster(target='load')"
    with pytest.raises(ValueError, match="variant='co-none' is not known"):
        ns.Forecaster(target="load", variant="co-none").fit(demand())


@pytest.mark.parametrize("kind", [ns.Forecaster, ns.Detector, ns.Classifier])
def test_arrays_need_targets(kind):
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        kind().fit(np.zeros((5, 2)))


def test_what_is_not_a_table():
    with pytest.raises(ValueError, match="data has no rows"):
        ns.Forecaster(target="load").fit(demand()[:0])
    with pytest.raises(ValueError, match="has no target 'power'"):
        ns.Forecaster(target="power").fit(demand())


def test_a_run_folder_of_arrays_is_read_as_it_was_fitted(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    y = 2 * x[:, :1] + 50
    model = ns.Forecaster(**SMALL).fit(x, y, out=tmp_path / "numbers")
    loaded = ns.Forecaster.load(tmp_path / "numbers")
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    assert loaded.predict(x).shape == (200, 1)
    assert np.abs(loaded.predict(x) - y).mean() < 1
    labels = 10 * (x[:, 0] > 0)
    ns.Detector(**SMALL).fit(x, labels, out=tmp_path / "classes")
    detector = ns.Detector.load(tmp_path / "classes")
    assert detector.classes_.tolist() == [0, 10]
    assert detector.score([x], [labels]) > 0.8
    with pytest.raises(ValueError, match="y=None: the score of arrays needs their labels"):
        detector.score(x)


def test_frames_of_a_class_that_was_not_trained_are_wrong():
    y = np.repeat([0, 10, 20], 20)
    x = np.eye(3)[y // 10]
    detector = ns.Detector(**SMALL).fit(np.r_[x, x], np.r_[y, y])
    other = np.where(np.arange(60) < 30, 99, y)
    assert detector.score(x, other) <= 0.5


def test_names_of_columns_reach_the_sessions():
    x = pl.DataFrame({"a": np.arange(50.0), "b": np.ones(50)}).with_columns(pl.col("b") * np.arange(50) % 7)
    model = ns.Forecaster(**SMALL).fit(x, x["a"].to_numpy())
    (answer,) = model.sessions().take("key", {"b": 1.0, "a": 2.0})
    np.testing.assert_allclose(answer.values, model.predict(pl.DataFrame({"a": [2.0], "b": [1.0]})), rtol=1e-5)


def test_forecasts_are_those_of_the_rows_of_the_table(forecaster):
    new = demand()[300:340]
    np.testing.assert_array_equal(forecaster.predict(new.reverse()), forecaster.predict(new)[::-1])
    assert forecaster.predict(new[:1]).shape == (1,)
    skipping = ns.Forecaster(target="load", gaps="skip", **SMALL).fit(demand()[:200])
    assert skipping.predict(new).shape == (40,)
    filling = ns.Forecaster(target="load", gaps="fill", **SMALL).fit(demand()[:200])
    with pytest.raises(ValueError, match="data has 39 rows, but there are forecasts after 40"):
        filling.predict(pl.concat([new[:20], new[21:]]))


def test_what_is_known_in_advance_ends_with_the_table():
    options = {"target": "load", "horizon": 2, "known": "other", "columns": "other", **SMALL}
    model = ns.Forecaster(**options).fit(demand()[:200])
    forecasts = model.predict(demand()[200:240])
    assert list(model.model_.info.reader["known"]) == ["other"]
    assert np.isnan(forecasts).tolist() == [False] * 38 + [True] * 2


def test_a_model_of_several_frames_per_token(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(4):
        y = np.repeat([0, 1], 40)
        np.savez(tmp_path / f"{i}.npz", x=rng.normal(size=(80, 2)) + y[:, None], y=y)
    detector = ns.Detector(hop=4, **SMALL).fit(tmp_path)
    assert detector.predict(tmp_path)["0.npz"].shape == (20,)
    with pytest.raises(ValueError, match="hop=4: the model reads statistics of 4 frames"):
        detector.predict(rng.normal(size=(80, 2)))
    with pytest.raises(ValueError, match="hop=4 is for folders of feature files"):
        detector.fit(rng.normal(size=(80, 2)), np.repeat([0, 1], 40))


def test_evaluate_gives_the_scores_of_eval(tmp_path, monkeypatch, capsys, forecaster):
    monkeypatch.chdir(tmp_path)
    new = demand()[300:]
    new.write_csv("new.csv")
    forecaster.save("saved")
    assert main(["eval", "saved", "new.csv", "--json", "eval.json", "--plain"]) == 0
    theirs = json.loads(Path("eval.json").read_text())["scores"]
    assert set(theirs) == {"model", "ridge", "persistence", "a day ago"}
    for data in (new, "new.csv"):
        ours = forecaster.evaluate(data)
        assert set(ours) == set(theirs)
        for name, scores in theirs.items():
            assert ours[name] == pytest.approx(scores, rel=1e-6)  # a CSV file has fewer digits
    notes = []
    holes = pl.concat([new[:40], new[41:]])
    with pytest.raises(ValueError, match=r"`gaps='fill'` inserts the missing rows"):
        forecaster.evaluate(holes)
    assert forecaster.evaluate(holes, gaps="fill", log=notes.append)["model"]["mean absolute error"] > 0
    assert any("filled" in note for note in notes), notes
    with pytest.raises(ValueError, match="skip_lines=1 is for files, but data is a DataFrame"):
        forecaster.evaluate(new, skip_lines=1)


def test_evaluate_needs_data_with_baselines(clips):
    classifier = ns.Classifier(epochs=2, embed_dim=8, num_heads=2).fit(*clips)
    with pytest.raises(TypeError, match="data is a list, but must be the path of a folder; `score` takes arrays"):
        classifier.evaluate(clips[0])
    x = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.raises(ValueError, match="the model was fitted to arrays, which `score` takes"):
        ns.Forecaster(**SMALL).fit(x, x[:, 0]).evaluate(x)
    with pytest.raises(NotFittedError):
        ns.Forecaster().evaluate(x)


def test_save_keeps_the_source(tmp_path, forecaster):
    demand()[:300].write_csv(tmp_path / "demand.csv")
    fitted = ns.Forecaster(target="load", **SMALL).fit(tmp_path / "demand.csv")
    fitted.save(tmp_path / "first")
    ns.Forecaster.load(tmp_path / "first").save(tmp_path / "second")
    for name in ("first", "second"):
        assert read_config(tmp_path / name / CONFIG)["source"] == str(tmp_path / "demand.csv")
    forecaster.save(tmp_path / "third")
    assert read_config(tmp_path / "third" / CONFIG)["source"] == "arrays"
