"""`examples/notebook.ipynb` runs from its first cell to its last, in a kernel, and shows what it says."""

import json
import subprocess
import sys

from support.documents import ROOT
from support.waiting import PATIENCE

NOTEBOOK = ROOT / "examples" / "notebook.ipynb"
RUN = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, kernel_name="python3", timeout=float(sys.argv[2]), resources={"metadata": {"path": "."}}).execute()
nbformat.write(notebook, "done.ipynb")
"""


def test_the_notebook_goes_from_a_data_frame_to_a_report(tmp_path):
    program = [
        sys.executable,
        "-c",
        RUN,
        NOTEBOOK,
        str(PATIENCE),
    ]  # a process of its own: its warnings are not ours
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    cells = [
        cell
        for cell in json.loads((tmp_path / "done.ipynb").read_text("utf-8"))["cells"]
        if "outputs" in cell
    ]
    shown = ["".join(_texts(cell)) for cell in cells]
    assert "pass rate 83.3% (68.2–92.2%) over 24 cases" in shown[1]
    assert "did not pass: 8" in shown[1]
    assert "small 66.7% (39.1–86.2%)" in shown[2]
    assert "regressed" in shown[3]
    assert "topic: large" in shown[3]
    assert "failed: it regressed against" in shown[4]
    assert "name='human_a'" in shown[5]
    assert "name='human_b'" in shown[5]
    assert "# Comparison by passed" in shown[6]
    assert (tmp_path / "report.md").read_text("utf-8").startswith("# Comparison by passed")


def _texts(cell):
    for output in cell["outputs"]:
        for text in (output.get("text", ""), *output.get("data", {}).values()):
            yield "".join(text)


def test_the_notebook_in_the_repository_has_no_outputs():
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in cells)
