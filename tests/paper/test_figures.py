"""Figures show the given numbers, and no text is cut or lies on another."""

from __future__ import annotations

import itertools
import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from flr.core.errors import DataError
from flr.paper import figures
from flr.report import style

METHODS = ["FedAvg", "GCE", "Co-teaching", "DivideMix", "ELR", "FedProx", "RoFL", "FLR", "FedCorr"]
METHODS += ["FLR⁺", "Mixup", "FLR, CE warm-up", "FedLSR, symmetric cross entropy", "FedRN", "SLR"]
CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer"]
CIFAR10 += ["dog", "frog", "horse", "ship", "truck"]
LONG = "FLR, CE warm-up, and a title that is much too long for one line of half a page"


def clean(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws the figure; every text that is drawn lies inside of it and on no other text."""
    drawn: list[Text] = []
    draw = Text.draw

    def noted(self, renderer, *rest, **named):
        if self.get_visible() and self.get_text().strip():
            drawn.append(self)
        return draw(self, renderer, *rest, **named)

    figure.set_dpi(100)  # layout is the same, drawing is faster
    monkeypatch.setattr(Text, "draw", noted)
    figure.canvas.draw()
    monkeypatch.undo()
    assert drawn
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    boxes = {text: text.get_window_extent(canvas.get_renderer()) for text in dict.fromkeys(drawn)}
    width, height = canvas.get_width_height()
    for text, box in boxes.items():
        assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= -1, f"{text} is cut"
    for (one, a), (other, b) in itertools.combinations(boxes.items(), 2):
        over = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert min(over) <= 2, f"{one} lies on {other}"


def line(axes: Axes, label: str) -> np.ndarray:
    (found,) = [each for each in axes.lines if each.get_label() == label]
    return np.array(found.get_xydata())


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def seeds(make_run: Callable, rounds: int, count: int, top: float = 0.8) -> list:
    return [make_run(rounds, top=top - 0.03 * seed, memorized=0.4) for seed in range(count)]


def test_files_open_and_equal_figures_give_equal_bytes(tmp_path: Path, make_run) -> None:
    for name in ("a", "b-0.8"):  # a dot in the name is not the start of an ending
        figure = figures.memorization(seeds(make_run, 20, 2), "FLR")
        png, pdf = style.save(figure, tmp_path / "new" / name)
        assert (png.name, pdf.name) == (f"{name}.png", f"{name}.pdf")
        with Image.open(png) as image:
            image.load()
            assert image.format == "PNG"
            assert image.width == 1440
            assert not image.info.keys() & {"Software", "Creation Time"}
        raw = pdf.read_bytes()
        assert raw.startswith(b"%PDF-")
        assert raw.rstrip().endswith(b"%%EOF")
        assert not any(word in raw for word in (b"CreationDate", b"Producer", b"Creator"))
        assert int(raw.split(b"startxref")[1].split()[0]) == raw.rindex(b"xref\n", 0, -30)
    for ending in ("png", "pdf"):
        first, second = (tmp_path / "new" / f"{name}.{ending}" for name in ("a", "b-0.8"))
        assert first.read_bytes() == second.read_bytes()
    assert len(list((tmp_path / "new").iterdir())) == 4


def test_flr_itself_does_not_load_matplotlib() -> None:
    code = "import sys, flr; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_looks_differ_for_every_method() -> None:
    looks = style.line_styles(METHODS).values()
    assert len({look[:2] for look in looks}) == len(METHODS)
    assert len({(look.colour, look.marker) for look in looks}) == len(METHODS)


@pytest.mark.parametrize(("rounds", "count"), [(1, 1), (1, 3), (300, 3)])
def test_memorization(make_run, monkeypatch, rounds: int, count: int) -> None:
    curves = seeds(make_run, rounds, count)
    figure = figures.memorization(curves, f"FedAvg $ {LONG}")
    keys = ("server", "server", "client_noisy", "client_noisy")
    for axes, side, kind in zip(figure.axes, keys, ("clean", "noisy") * 2, strict=True):
        outcomes = ("correct", "wrong") + (("memorized",) if kind == "noisy" else ())
        assert [each.get_label() for each in axes.lines] == list(outcomes)
        for outcome in outcomes:
            given = [[row["memorization"][side][f"{kind}_{outcome}"] for row in c] for c in curves]
            expected = 100 * np.mean(given, axis=0)
            np.testing.assert_allclose(
                line(axes, outcome), np.column_stack([np.arange(rounds) + 1, expected])
            )
        assert bool(axes.collections) == (count > 1)
    clean(figure, monkeypatch)


def test_what_was_not_measured_is_said_and_not_drawn(make_run, monkeypatch) -> None:
    curve = make_run(10)
    for row in curve:
        row["memorization"]["client_noisy"] = None
        row["memorization"]["server"]["noisy_wrong"] = None
    del curve[3]["memorization"]
    figure = figures.memorization([curve], "")
    server, client = figure.axes[1], figure.axes[3]
    assert [each.get_label() for each in server.lines] == ["correct", "memorized"]
    assert 4 not in line(server, "correct")[:, 0]
    assert texts(client) == ["not measured"]
    clean(figure, monkeypatch)
    clean(figures.memorization([], "nothing"), monkeypatch)


def test_accuracy_is_the_mean_over_the_seeds_that_have_the_round(make_run) -> None:
    long, short = make_run(20, top=0.9), make_run(5, top=0.5)
    short[1]["accuracy"] = None
    (axes,) = figures.accuracy({"panel": {"FLR": [long, short]}}).axes
    expected = [100 * row["accuracy"] for row in long]
    for place in (0, 2, 3, 4):
        expected[place] = (expected[place] + 100 * short[place]["accuracy"]) / 2
    np.testing.assert_allclose(line(axes, "FLR")[:, 1], expected)
    corners = axes.collections[0].get_paths()[0].vertices
    at_one = corners[corners[:, 0] == 1][:, 1]
    assert at_one.min() == pytest.approx(100 * short[0]["accuracy"])
    assert at_one.max() == pytest.approx(100 * long[0]["accuracy"])


@pytest.mark.parametrize("count", [2, 15])
def test_accuracy_of_many_methods_and_panels(make_run, monkeypatch, count: int) -> None:
    methods = {
        name: seeds(make_run, 40, 1, 0.9 - place / 30) for place, name in enumerate(METHODS[:count])
    }
    low = {METHODS[0]: seeds(make_run, 40, 1, 0.1)}
    figure = figures.accuracy({"(a) i.i.d.": methods, "(b) none": {}, LONG: low})
    first, empty, third = figure.axes
    assert texts(empty) == ["not measured"]
    colours = {axes.lines[0].get_color() for axes in (first, third)}
    assert len(colours) == 1  # the same method looks the same in each panel
    lowest, highest = first.get_ylim()
    for axes in (first, third):
        drawn = np.concatenate([each.get_ydata() for each in axes.lines])
        assert lowest <= drawn.min()
        assert drawn.max() <= highest
    clean(figure, monkeypatch)


def bars_of(axes: Axes) -> list[float]:
    return [
        patch.get_height()
        for container in axes.containers
        if isinstance(container, BarContainer)
        for patch in container
    ]


@pytest.mark.parametrize(("methods", "groups"), [(2, 1), (8, 2), (15, 4)])
def test_bars_are_means_with_their_numbers(monkeypatch, methods: int, groups: int) -> None:
    rng = np.random.default_rng(0)
    given = {
        f"Aggregate {number}": {
            name: list(0.7 + (place + rng.normal(0, 1, 5)) / 100)
            for place, name in enumerate(METHODS[:methods])
        }
        for number in range(groups)
    }
    figure = figures.bars(given, "best test accuracy (%)")
    means = [
        100 * statistics.fmean(values) for group in given.values() for values in group.values()
    ]
    drawn = [height for axes in figure.axes for height in bars_of(axes)]
    np.testing.assert_allclose(drawn, means)
    assert [text for axes in figure.axes for text in texts(axes)] == [f"{m:.1f}" for m in means]
    first = next(iter(given.values()))[METHODS[0]]
    (whisker,) = figure.axes[0].containers[0].lines[2]
    half = np.ptp(whisker.get_segments()[0][:, 1]) / 2
    assert half == pytest.approx(100 * statistics.stdev(first))
    clean(figure, monkeypatch)


def test_a_cut_axis_of_bars_is_said(monkeypatch) -> None:
    cut = figures.bars({"Worst": {"FedAvg": [0.80], "FLR": [0.84]}}, "accuracy (%)").axes[0]
    start = cut.get_ylim()[0]
    assert 0 < start < 80
    assert f"axis starts at {start:g}" in cut.get_ylabel()
    assert cut.lines  # the zigzag through the bars
    whole = figures.bars({"Worst": {"FedAvg": [0.30], "FLR": [0.84]}}, "accuracy (%)").axes[0]
    assert whole.get_ylim()[0] == 0
    assert whole.get_ylabel() == "accuracy (%)"
    assert not whole.lines


def test_bars_without_values(monkeypatch) -> None:
    given = {"Gap": {"FedAvg": [], "FLR": [None], "ELR": [0.0, None]}, "Empty": {}}
    figure = figures.bars(given, "accuracy (%)")
    assert sorted(texts(figure.axes[0])) == ["0.0"] + 3 * ["not measured"]
    clean(figure, monkeypatch)
    figures.bars({}, "accuracy (%)").canvas.draw()


@pytest.mark.parametrize(
    ("methods", "places"),
    [(2, ["0.2", "0.4", "0.6"]), (15, [f"(0.5, {n / 20})" for n in range(14)])],
)
def test_lines(monkeypatch, methods: int, places: list[str]) -> None:
    rng = np.random.default_rng(0)
    panels = {
        f"α_Dir = {alpha}": {
            name: {place: list(0.8 + rng.normal(0, 0.02, 3)) for place in places}
            for name in METHODS[:methods]
        }
        for alpha in (1, 10)
    }
    panels["α_Dir = 1"]["GCE"][places[1]] = [None]
    panels["none"] = {}
    figure = figures.lines(panels, "noise level (τ, ρ)", "accuracy (%)")
    for axes, methods_of in zip(figure.axes, panels.values(), strict=True):
        assert len(axes.containers) == len(methods_of)
        for container, given in zip(axes.containers, methods_of.values(), strict=True):
            xy = np.array(container.lines[0].get_xydata())
            assert np.abs(xy[:, 0] - range(len(places))).max() < 0.4
            means = [
                np.nan if None in values else 100 * np.mean(values) for values in given.values()
            ]
            np.testing.assert_allclose(xy[:, 1], means)
        if methods_of:
            assert [tick.get_text() for tick in axes.get_xticklabels()] == places
    assert texts(figure.axes[2]) == ["not measured"]
    clean(figure, monkeypatch)


@pytest.mark.parametrize("steps", [3, 11])
def test_ablation(make_run, monkeypatch, steps: int) -> None:
    grid = [round(step / (steps - 1), 2) for step in range(steps)]
    heat = {(a, g): [0.6 + a / 5 + g / 20, 0.61 + a / 5 + g / 20] for a in grid for g in grid}
    heat[grid[1], grid[2]] = []
    figure = figures.ablation(heat, {f"β = {b}": seeds(make_run, 30, 2) for b in (0, 0.7)})
    left, right = figure.axes[:2]
    drawn = left.images[0].get_array()
    assert drawn.mask.sum() == 1
    assert bool(drawn.mask[2, 1])  # gamma in rows, alpha in columns
    assert drawn[0, 2] == pytest.approx(60.5 + 20 * grid[2])
    assert f"{60.5 + 20 * grid[-1] + 5:.1f}" in texts(left)
    bottom, top = left.get_ylim()
    assert bottom < top  # gamma grows upwards
    assert [each.get_label() for each in right.lines] == ["β = 0", "β = 0.7"]
    clean(figure, monkeypatch)


def test_an_empty_ablation(monkeypatch) -> None:
    figure = figures.ablation({}, {})
    assert [texts(axes) for axes in figure.axes] == [["not measured"], ["not measured"]]
    clean(figure, monkeypatch)


@pytest.mark.parametrize(("sites", "classes"), [(3, 2), (100, 10), (50, 100)])
def test_partitions(monkeypatch, sites: int, classes: int) -> None:
    counts = np.random.default_rng(0).poisson(1.0, (sites, classes))
    names = CIFAR10[:classes] if classes <= 10 else [f"class {n}" for n in range(classes)]
    figure = figures.partitions({LONG: counts, "none": np.empty((0, classes))}, names)
    strip, axes, _, empty = figure.axes[:4]
    np.testing.assert_array_equal(axes.images[0].get_array().filled(0), counts.T)
    assert [bar.get_height() for bar in strip.patches] == counts.sum(axis=1).tolist()
    assert texts(empty) == ["not measured"]
    clean(figure, monkeypatch)


@pytest.mark.parametrize(("classes", "panels"), [(10, 1), (10, 2), (20, 2), (100, 2)])
def test_transition(monkeypatch, classes: int, panels: int) -> None:
    matrix = 0.6 * np.eye(classes) + 0.4 * np.roll(np.eye(classes), 1, axis=1)
    matrix[0] = np.nan  # a class without samples
    names = CIFAR10 if classes == 10 else [f"class {n}" for n in range(classes)]
    figure = figures.transition({f"{LONG} {n}": matrix for n in range(panels)}, names)
    for axes in figure.axes[:panels]:
        drawn = axes.images[0].get_array()
        assert drawn.mask[0].all()
        np.testing.assert_allclose(drawn[1:], 100 * matrix[1:])
        if classes == 100:
            assert not axes.texts
        else:
            found = texts(axes)
            assert (found.count("60"), found.count("40")) == (classes - 1, classes - 1)
    clean(figure, monkeypatch)


def test_embedding(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    noisy, true = rng.integers(0, 10, (2, 200))
    panels = [figures.Embedded(name, rng.normal(size=(200, 2)), noisy, true) for name in "CF"]
    figure = figures.embedding(panels, CIFAR10)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [(title[:5], "noisy" in title) for title in titles] == [
        ("(a) C", True),
        ("(b) F", True),
        ("(c) C", False),
        ("(d) F", False),
    ]
    for axes, panel, labels in zip(
        figure.axes, panels * 2, (noisy, noisy, true, true), strict=True
    ):
        for points in axes.collections:
            expected = panel.points[labels == int(points.get_gid())]
            np.testing.assert_allclose(points.get_offsets(), expected)
        assert sum(len(points.get_offsets()) for points in axes.collections) == 200
    clean(figure, monkeypatch)
    nothing = figures.Embedded("CE", np.empty((0, 2)), np.empty(0), np.empty(0))
    clean(figures.embedding([nothing], CIFAR10), monkeypatch)


def test_tsne_keeps_groups_together_whatever_the_threads() -> None:
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    group = np.arange(60) % 2
    features = rng.normal(size=(60, 70)) + 8 * group[:, None]
    found = figures.tsne(features, seed=1)
    with threadpool_limits(limits=2):
        np.testing.assert_array_equal(found, figures.tsne(features, seed=1))
    assert found.shape == (60, 2)
    middles = [found[group == number].mean(axis=0) for number in (0, 1)]
    nearest = [min((0, 1), key=lambda n: math.dist(point, middles[n])) for point in found]
    assert nearest == group.tolist()


def test_tsne_of_too_few_samples() -> None:
    with pytest.raises(DataError, match=r"at least 4 samples.* 3\. Take more"):
        figures.tsne(np.zeros((3, 5)), seed=1)


def test_overview(monkeypatch) -> None:
    figure = figures.overview()
    (axes,) = figure.axes
    words = " ".join(texts(axes))
    for part in (r"\beta", r"\gamma", r"\alpha", r"\lambda", "p,t", "weights\nonly"):
        assert part in words
    clean(figure, monkeypatch)
