"""The notebook's cells run one after the other, and draw."""

import contextlib
import io
import json
import os
import pathlib
import unittest
import unittest.mock

import matplotlib

import files

NOTEBOOK = pathlib.Path(__file__).parents[2] / "python" / "notebook.ipynb"


class Notebook(unittest.TestCase):
    def run_cells(self, trace):
        """Runs all cells of code; the titles of what was drawn, and what was printed."""
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        records, _, result = files.run()
        paths = {"FOREBAY_TRACE": str(trace), "FOREBAY_RECORDS": str(records), "FOREBAY_RESULT": str(result)}
        cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
        self.assertTrue(all(cell["outputs"] == [] for cell in cells), "the notebook is kept without what it has drawn")
        names, printed, titles = {}, io.StringIO(), []

        def show():
            for number in plt.get_fignums():
                titles.extend(axes.get_title() for axes in plt.figure(number).axes)
                plt.figure(number).savefig(io.BytesIO())
            plt.close("all")

        with unittest.mock.patch.dict(os.environ, paths), unittest.mock.patch.object(plt, "show", show):
            with contextlib.redirect_stdout(printed):
                for number, cell in enumerate(cells, 1):
                    exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        return titles, printed.getvalue()

    def test_a_recording_and_a_result_are_drawn(self):
        titles, printed = self.run_cells(files.capture(100_000))
        self.assertEqual(
            titles,
            ["Offsets over time", "Latencies of the recording", "Latency with 95 % intervals", "Rate over time", "Latencies of all I/Os"],
        )
        self.assertIn("<Trace of 100000 rows", printed)
        self.assertIn("whole", printed)

    def test_a_trace_without_latencies_will_do(self):
        titles, _ = self.run_cells("ycsb:?operations=5000")
        self.assertEqual(len(titles), 5)


if __name__ == "__main__":
    unittest.main()
