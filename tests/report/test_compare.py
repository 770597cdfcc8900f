"""Comparisons: intervals by hand, pairing, refusals, and every form of the table."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from flr.core.errors import DataError
from flr.report import summary
from flr.report.compare import compare, demo_table, to_csv, to_latex, to_markdown, to_rich
from flr.report.memorization import KEYS
from flr.report.paired_runs import estimate, tabulate
from flr.report.run_records import RunRecord, read_run


def run(
    method: str, scenario: str, last10: float | None, *, seed: int = 1, group: str = "g"
) -> RunRecord:
    accuracy = {"best": 0.9, "last": 0.8, "last10": last10}
    shares = dict.fromkeys(KEYS, 0.25)
    late = {side: dict.fromkeys(KEYS, 0.35) for side in ("server", "client")}
    memorization = {"server": shares, "client": shares, "last10": late}
    found = {"method": method, "accuracy": accuracy, "memorization": memorization}
    folder = Path(f"runs/{method}-{scenario}-{seed}")
    return RunRecord(
        folder, method, (("lam", "2.0"), ("beta", "0.7")), seed, group, scenario, found
    )


def width(table) -> int:
    console = Console(width=80, file=io.StringIO(), legacy_windows=False)
    console.print(table)
    text = console.file.getvalue()
    assert "…" not in text
    return max(len(line.rstrip()) for line in text.splitlines())


def test_interval_by_hand() -> None:
    # 1, 2, 3, 4: mean 2.5, s = 1.2909944, t(0.975, 3) = 3.1824463, half = 3.1824463 * s / 2
    found = estimate([1.0, 2.0, None, 3.0, 4.0])
    assert (found.mean, found.n) == (2.5, 4)
    assert found.half == pytest.approx(2.0542603, abs=1e-6)


def test_one_value_has_no_interval() -> None:
    assert estimate([0.5]).half is None
    assert estimate([]).mean is None


def test_pairs_by_scenario() -> None:
    base = [run("fedavg", s, v) for s, v in (("s1", 0.5), ("s2", 0.7), ("s3", 0.9))]
    ours = [run("flr", s, v) for s, v in (("s3", 0.92), ("s1", 0.51), ("s2", 0.73))]
    first, second = tabulate([*base, *ours]).rows
    assert (first.method, first.n, first.difference) == ("fedavg", 3, None)
    assert second.difference is not None
    assert second.difference.mean == pytest.approx(0.02)
    assert second.difference.half == pytest.approx(4.3026527 * 0.01 / 3**0.5)
    assert first.last10.half > second.difference.half  # what pairing is for


def test_seeds_on_one_scenario_are_pairs_when_they_agree() -> None:
    runs = [
        run(m, "s", v + seed, seed=seed) for m, v in (("a", 0.1), ("b", 0.3)) for seed in (1, 2)
    ]
    assert tabulate(runs).rows[1].difference.n == 2
    other = [*runs[:2], replace(runs[2], seed=8), replace(runs[3], seed=9)]
    difference = tabulate(other).rows[1].difference
    assert (difference.n, difference.mean) == (1, pytest.approx(0.2))


def test_a_missing_scenario_is_named() -> None:
    with pytest.raises(DataError) as error:
        tabulate([run("a", "s1", 0.1), run("a", "s2", 0.1), run("b", "s1", 0.1)])
    text = str(error.value)
    assert '"b" (runs/b-s1-1) lacks scenario s2 (which runs/a-s2-1 has)' in text
    assert text.startswith("Expected")
    assert "leave the others out" in text


def test_a_repeated_run_is_refused() -> None:
    with pytest.raises(DataError, match="runs/a-s1-1 and runs/a-s1-1 share scenario s1 and seed 1"):
        tabulate([run("a", "s1", 0.1), run("a", "s1", 0.2)])


def test_one_method_with_two_settings_is_two_methods() -> None:
    other = replace(run("flr", "s1", 0.4), options=(("lam", "3.0"), ("beta", "0.7")))
    table = tabulate([run("flr", "s1", 0.1), other, run("fedavg", "s1", 0.2)])
    assert [row.method for row in table.rows] == ["flr (lam=2.0)", "flr (lam=3.0)", "fedavg"]
    assert table.rows[1].difference.mean == pytest.approx(0.3)


def test_groups_do_not_mix() -> None:
    runs = [run(m, s, 0.5, group=g) for g, s in (("g", "s1"), ("h", "s2")) for m in ("a", "b")]
    table = tabulate(runs)
    assert [(row.group, row.method) for row in table.rows] == [
        (1, "a"), (1, "b"), (2, "a"), (2, "b"),
    ]  # fmt: skip
    assert width(to_rich(table)) <= 80
    assert "2 as in runs/a-s2-1" in to_markdown(table).replace("\\", "")
    assert to_latex(table).count("\\midrule") == 2


def test_no_folder_and_no_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="at least one run folder"):
        compare([])
    with pytest.raises(DataError, match=r"no config\.toml"):
        compare([tmp_path])
    with pytest.raises(DataError, match=r"no config\.toml"):
        read_run(tmp_path / "nowhere")


def test_folders_of_real_runs(tmp_path: Path, make_run, facts) -> None:
    for method in ("fedavg", "flr"):
        for seed in (1, 2):
            folder = tmp_path / f"{method}-{seed}"
            folder.mkdir()
            found = facts(method=method, seed=seed, scenario=f"scenario-{seed}")
            summary.save(folder, summary.summarize(make_run(top=0.8 + seed / 20), **found))
            (folder / "config.toml").write_text(
                f'seed = {seed}\nrounds = 60\nmethod = "{method}"\n[data]\nname = "digits"\n'
            )
    table = compare(sorted(tmp_path.iterdir()))
    assert [(row.method, row.n) for row in table.rows] == [("fedavg", 2), ("flr", 2)]
    assert table.rows[1].difference.mean == 0
    with pytest.raises(DataError, match=r'"flr" .* lacks scenario scenario-2'):
        compare(sorted(tmp_path.iterdir())[:3])


@pytest.fixture
def table():
    values = {"s1": 0.5, "s2": 0.9, "s3": 0.4}
    names = ("fed_avg 100%", "flr+mixup & a much longer name of a method")
    return tabulate([run(m, s, v + i / 10) for i, m in enumerate(names) for s, v in values.items()])


def test_rich_fits_a_terminal(table) -> None:
    assert width(to_rich(table)) <= 80


def test_latex_is_escaped(table) -> None:
    text = to_latex(table)
    assert r"fed\_avg 100\% & 3 & $90.0 \pm 0.0$" in text
    assert r"flr+mixup \& a much" in text
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.replace(r"\&", "").count("&") for line in body} == {9}


def test_markdown_has_even_rows(table) -> None:
    rows = [line for line in to_markdown(table).splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {11}
    assert "+10.0 ± 0.0" in rows[-1]


def test_csv_is_exact(table) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert [row["method"] for row in rows] == [row.method for row in table.rows]
    assert float(rows[0]["last10"]) == table.rows[0].last10.mean
    assert float(rows[1]["difference_half"]) == table.rows[1].difference.half
    assert rows[0]["difference"] == ""


def test_memorized_in_the_last_round_and_on_average(table) -> None:
    row = next(csv.DictReader(io.StringIO(to_csv(table))))
    assert (float(row["client"]), float(row["client_last10"])) == (0.25, pytest.approx(0.35))
    assert "25.0 ± 0.0 | 35.0 ± 0.0" in to_markdown(table)
    console = Console(width=80, file=io.StringIO())
    console.print(to_rich(table))
    shown = console.file.getvalue()
    assert "35.0" in shown
    assert "25.0" not in shown


def test_metrics_and_the_chosen_model_have_columns() -> None:
    runs = []
    for seed, value in ((1, 0.4), (2, 0.6)):
        found = run("a method with a long name", f"s{seed}", 0.5, seed=seed)
        more = {
            "metrics": {
                "macro-f1": {"last": 0.9, "last10": value},
                "worst-site": {"last": 0.9, "last10": None},
                "site-accuracy": {"last": [0.1, 0.2], "last10": [0.1, 0.2]},
            },
            "selection": {"accuracy": value + 0.2},
        }
        runs.append(replace(found, summary=found.summary | more))
    table = tabulate(runs)
    assert list(table.rows[0].measures) == ["chosen", "macro-f1", "worst-site"]
    row = next(csv.DictReader(io.StringIO(to_csv(table))))
    assert float(row["macro-f1"]) == pytest.approx(0.5)
    assert float(row["chosen"]) == pytest.approx(0.7)
    assert row["worst-site"] == ""
    assert width(to_rich(table)) <= 80
    mixed = tabulate([*runs, *(run("plain", f"s{seed}", 0.5, seed=seed) for seed in (1, 2))])
    assert to_markdown(mixed).splitlines()[3].endswith("| – | – | – |")


def test_a_run_that_was_not_evaluated_has_dashes() -> None:
    table = tabulate([run("a", "s", None), run("b", "s", 0.5)])
    assert table.rows[1].difference.mean is None
    assert "–" in to_markdown(table).splitlines()[3]


def test_demo_table_fits() -> None:
    assert width(demo_table({m: run(m, "s", 0.5).summary for m in ("fedavg", "elr", "flr")})) <= 80
