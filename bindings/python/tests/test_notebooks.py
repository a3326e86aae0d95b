"""The notebooks of the book run from a clean kernel. The executed notebooks are written to `target/notebooks`."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.py"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    jupytext = pytest.importorskip("jupytext")
    nbclient = pytest.importorskip("nbclient")
    notebook = jupytext.read(path)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    figures = [o for cell in notebook.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    assert figures, "a notebook shows something"
    out = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "notebooks"
    out.mkdir(parents=True, exist_ok=True)
    jupytext.write(notebook, out / f"{path.stem}.ipynb")


def test_there_are_four():
    assert len(NOTEBOOKS) == 4
