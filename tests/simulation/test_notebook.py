"""In a Jupyter kernel `flr.run` shows how far it is; a script hears nothing."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient

import flr
from flr.simulation import notebook

CONFIG = {
    "rounds": 3,
    "workers": 1,
    "data": {"name": "digits", "train": 60, "test": 20},
    "partition": {"kind": "iid", "clients": 2},
    "train": {"model": "linear", "epochs": 1},
}
CELLS = (
    f"import flr\nrun = flr.run({CONFIG!r}, out='shown')",
    f"seen = []\nrun = flr.run({CONFIG!r}, out='own', on_round=seen.append)\nlen(seen)",
)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What each cell shows in a real kernel."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    folder = tmp_path_factory.mktemp("notebook")
    client = NotebookClient(book, timeout=300, kernel_name="python3", resources={})
    client.resources["metadata"] = {"path": str(folder)}
    client.execute()
    return [cell["outputs"] for cell in book.cells]


def test_a_bar_goes_to_the_last_round(outputs):
    (shown,) = outputs[0]
    assert shown["output_type"] == "display_data"
    assert '<progress value="3" max="3"' in shown["data"]["text/html"]
    assert shown["data"]["text/plain"].startswith("flr: round 3 of 3, accuracy ")


def test_whoever_watches_himself_gets_no_bar(outputs):
    (value,) = outputs[1]
    assert value["data"]["text/plain"] == "3"


def test_a_script_is_shown_nothing(tmp_path, capsys):
    assert not notebook.in_notebook()
    flr.run({**CONFIG, "rounds": 1}, out=tmp_path / "run")
    assert capsys.readouterr().out == ""


def test_what_is_shown_is_text():
    shown = notebook.bundle("<b>: round 0 of 2", 0, 2)
    assert "&lt;b&gt;: round 0 of 2" in shown["text/html"]
    assert shown["text/plain"] == "<b>: round 0 of 2"
