"""Results are what their JSON says."""

import io
import json
import math
import pathlib
import tempfile
import unittest

import pandas as pd
import polars as pl

import files
import forebay


class Jobs(unittest.TestCase):
    def setUp(self):
        self.path = files.run()[2]
        self.json = json.loads(self.path.read_text())
        self.results = forebay.results(self.path)

    def test_every_figure_of_the_json_is_in_a_table(self):
        jobs, kinds = self.results.jobs.to_pandas(), self.results.kinds.to_pandas()
        self.assertEqual(jobs.name.to_list(), [job["name"] for job in self.json["jobs"]])
        for row, job in zip(self.results.jobs, self.json["jobs"]):
            for path, value in row.items():
                inner = job
                for key in walk(job, path):
                    inner = inner[key]
                self.assertEqual(inner, value, path)
        wanted = [(job["name"], kind["kind"], kind["ios"], kind["bytes"], kind["iops_interval"]) for job in self.json["jobs"] for kind in job["kinds"]]
        self.assertEqual(len(wanted), 4)
        found = [
            (row["jobs.name"], row["kind"], row["ios"], row["bytes"], low_high(row)) for row in kinds.to_dict("records")
        ]
        self.assertEqual(found, wanted)
        self.assertEqual(kinds.bytes.sum(), sum(job["bytes"] for job in self.json["jobs"]))

    def test_percentiles_have_their_intervals_and_what_is_withheld_is_null(self):
        frame = self.results.percentiles.to_pandas()
        wanted = [
            (job["name"], kind["kind"], of, entry["percentile"], entry["status"], entry["value"], entry["low"], entry["high"])
            for of in ("total", "device", "submission")
            for job in self.json["jobs"]
            for kind in job["kinds"]
            for entry in kind["latency_ns"][of]["percentiles"]
        ]
        columns = ["jobs.name", "kinds.kind", "latency", "percentile", "status", "value_ns", "low_ns", "high_ns"]
        found = [tuple(None if pd.isna(value) else value for value in row) for row in frame[columns].itertuples(index=False)]
        self.assertEqual(sorted(found, key=str), sorted(wanted, key=str))
        withheld = frame[frame.status == "withheld"]
        self.assertTrue(len(withheld) > 0 and withheld.value_ns.isna().all())
        polars = self.results.percentiles.to_polars()
        self.assertEqual(polars["value_ns"].to_list(), [None if pd.isna(value) else value for value in frame.value_ns])

    def test_percentiles_can_be_computed_from_histograms(self):
        frame = self.results.histograms.to_pandas()
        percentiles = self.results.percentiles.to_pandas()
        by = ["jobs.name", "kinds.kind", "latency"]
        self.assertEqual(frame["count"].sum(), sum(kind["ios"] for job in self.json["jobs"] for kind in job["kinds"]) * 3)
        compared = 0
        for key, of in percentiles[percentiles.value_ns.notna()].groupby(by):
            buckets = frame[(frame[by] == list(key)).all(axis=1)]
            up_to = buckets["count"].cumsum()
            for entry in of.itertuples():
                rank = math.ceil(round(entry.percentile * up_to.iloc[-1] * 1e10) / 1e12)
                self.assertEqual(buckets.high_ns[up_to >= rank].iloc[0], entry.value_ns, (key, entry))
                compared += 1
        self.assertGreater(compared, 50)
        polars = self.results.histograms.to_polars()
        self.assertEqual(polars["count"].sum(), frame["count"].sum())
        self.assertEqual(polars.columns, list(frame.columns))

    def test_intervals_are_the_time_series(self):
        frame = self.results.intervals.to_pandas()
        self.assertEqual(len(frame), sum(len(job["intervals"]) for job in self.json["jobs"]))
        self.assertEqual(frame.ios.sum(), sum(interval["ios"] for job in self.json["jobs"] for interval in job["intervals"]))
        self.assertIn("latency_ns.p99.9", frame.columns)

    def test_facts_are_with_the_frame(self):
        self.assertEqual(self.results.facts["target"], "model:p4610")
        self.assertEqual(self.results.jobs.to_pandas().attrs["forebay"], self.results.facts)
        self.assertEqual(self.results.command[:2], self.json["command"][:2])

    def test_an_open_file_is_a_result_too(self):
        for source in (io.StringIO(self.path.read_text()), io.BytesIO(self.path.read_bytes())):
            self.assertEqual(forebay.results(source).jobs.rows, self.results.jobs.rows)

    def test_of_several_targets_each_row_names_its_own(self):
        path = files.result("two.json", "bench", "--target", "null:?size=1GiB", "--target", "null:?size=2GiB", "--set", "ios=500")
        found = forebay.results(path)
        names = {target["name"] for target in json.loads(path.read_text())["targets"]}
        self.assertEqual(set(found.kinds.to_pandas()["jobs.target.name"]), names)
        self.assertEqual(len(names), 2)


def low_high(row):
    low, high = row["iops_interval.low"], row["iops_interval.high"]
    return None if pd.isna(low) else {"low": low, "high": high}


def walk(value, path):
    """The keys that a path is made of; keys may have dots themselves."""
    keys = []
    while path:
        key = max((key for key in value if path == key or path.startswith(f"{key}.")), key=len)
        keys.append(key)
        value, path = value[key], path[len(key) + 1 :]
    return keys


class Others(unittest.TestCase):
    def test_every_list_of_every_kind_of_result_is_a_table_in_both(self):
        capture = files.capture(1000)
        made = {
            "sweep.json": ("bench", "qd-sweep", "--target", "model:p4610", "--read-percent", "100", "--quick"),
            "analyze.json": ("analyze", capture),
            "size.json": ("size", capture),
            "check.json": ("check", "p4800x", "--target", "model:p4800x", "--quick"),
        }
        for name, words in made.items():
            found = forebay.results(files.result(name, *words))
            self.assertGreater(len(found.tables), 0, name)
            for path, table in found.tables.items():
                with self.subTest(result=name, table=path):
                    pandas, polars = table.to_pandas(), table.to_polars()
                    self.assertEqual((len(pandas), len(polars)), (len(table), len(table)))
                    self.assertEqual(list(pandas.columns), polars.columns)
        sweep = forebay.results(files.folder() / "sweep.json")
        self.assertEqual(sweep["points"].to_pandas().depth.to_list(), [1, 2, 4, 8, 16, 32, 64, 128, 256])
        self.assertEqual(set(sweep.percentiles.to_pandas()["points.depth"]), {1, 2, 4, 8, 16, 32, 64, 128, 256})
        self.assertEqual(set(sweep.percentiles.to_polars()["latency"].to_list()), {"all", "by_kind.read"})
        self.assertEqual(set(sweep.histograms.to_polars()["latency"].to_list()), {"all", "by_kind.read"})
        analysis = forebay.results(files.folder() / "analyze.json")
        self.assertEqual((analysis.facts["exact"], analysis.facts["report.one_block_in"]), (True, 1))
        with self.assertRaisesRegex(KeyError, "no result of jobs; there are"):
            analysis.jobs
        with self.assertRaisesRegex(KeyError, "no table 'point'"):
            sweep["point"]
        with self.assertRaisesRegex(KeyError, "several tables end so"):
            sweep["percentiles"]

    def test_values_keep_their_types(self):
        rows = [{"a": 1, "b": 2.5, "c": True, "d": "x", "e": (1 << 64) - 1, "f": [[1, 0.5]], "g": None}, {"a": None, "b": 3, "e": 1, "f": [[2, 1]]}]
        found = forebay.results(io.StringIO(json.dumps({"schema_version": 1, "rows": rows})))["rows"]
        types = [str(kind) for kind in found.to_pandas().dtypes]
        self.assertIn(types.pop(3), ("object", "str"))
        self.assertEqual(types, ["Int64", "float64", "boolean", "UInt64", "object", "object"])
        polars = found.to_polars()
        self.assertEqual(polars.dtypes[:5], [pl.Int64, pl.Float64, pl.Boolean, pl.String, pl.UInt64])
        self.assertEqual(polars["e"].to_list(), [(1 << 64) - 1, 1])
        self.assertEqual(polars["a"].to_list(), [1, None])


class Refused(unittest.TestCase):
    def test_what_is_no_result_says_why(self):
        for text, why in [
            ("", "is no JSON"),
            ("{", "is no JSON"),
            ("[1]", "schema_version is missing"),
            ("{}", "schema_version is missing"),
            ('{"schema_version": 2}', "schema_version 2 is not known: this package reads 1; use"),
            ('{"schema_version": "1"}', "schema_version 1 is not known"),
            ('{"schema_version": true}', "schema_version True is not known"),
            ('{"schema_version": 1, "a": 1e999}', "number out of range"),
            ('{"schema_version": 1, "a": NaN}', "number out of range"),
            ('{"schema_version": 1, "a": 36893488147419103232}', "number out of range"),
            ('{"schema_version": 1, "a": %s}' % ("9" * 5000), "is no JSON"),
            ("[" * 100_000, "is no JSON"),
            ('{"schema_version": 1, "a": ' + '{"a": ' * 900 + "1" + "}" * 901, None),
            (json.dumps({"schema_version": 1, "a": [{f"k{i}": 1} for i in range(5000)]}), "more than 4096 columns"),
        ]:
            with self.subTest(text=text[:60]):
                try:
                    forebay.results(io.StringIO(text))
                except forebay.FormatError as error:
                    self.assertIn(why or "", str(error))
                else:
                    self.assertIsNone(why)
        with self.assertRaisesRegex(forebay.FormatError, "is no JSON"):
            forebay.results(files.run()[0])
        with self.assertRaises(FileNotFoundError):
            forebay.results("nowhere.json")
        with self.assertRaises(IsADirectoryError):
            forebay.results(files.folder())

    def test_a_result_cut_off_anywhere_is_refused(self):
        text = files.run()[2].read_text().rstrip()
        for at in range(0, len(text), 97):
            with self.assertRaises(forebay.FormatError):
                forebay.results(io.StringIO(text[:at]))


class Nested(unittest.TestCase):
    def test_rows_of_lists_within_rows_can_be_told_apart(self):
        """Rows of all cells of one depth, and of all rounds, had one key."""
        cells = [{"depth": 1, "fill_percent": fill, "rounds": [{"ways": [{"iops": 5}]}] * 2} for fill in (10, 90)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "result.json"
            path.write_text(json.dumps({"schema_version": 1, "experiment": "x", "result": {"results": {"cells": cells}}}))
            ways = forebay.results(path)["ways"]
        keys = {tuple(sorted((key, value) for key, value in row.items() if key != "iops")) for row in ways}
        self.assertEqual((len(ways), len(keys)), (4, 4))

if __name__ == "__main__":
    unittest.main()
