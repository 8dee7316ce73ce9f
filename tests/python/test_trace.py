"""Traces are what `forebay convert` says that they are."""

import csv
import gzip
import os
import random
import subprocess
import sys
import unittest
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq

import files
import forebay


def quiet(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", forebay.IncompleteWarning)
        return forebay.trace(path, **options)


class Whole(unittest.TestCase):
    def check_against_parquet(self, trace, parquet):
        """Every value of both frames, and what is null, is that of the Parquet that `convert` has written."""
        expected = pq.read_table(parquet)
        self.assertEqual(list(trace.columns), expected.column_names)
        pandas, polars = trace.to_pandas(), trace.to_polars()
        self.assertEqual((len(trace), len(pandas), len(polars)), (expected.num_rows,) * 3)
        for name in expected.column_names:
            wanted = expected[name].to_pylist()
            with self.subTest(column=name):
                self.assertEqual([None if pd.isna(value) else value for value in pandas[name]], wanted)
                self.assertEqual(polars[name].to_list(), wanted)

    def test_a_capture_has_what_convert_writes(self):
        path = files.capture(100_000)
        self.check_against_parquet(forebay.trace(path), files.converted(path, ".parquet"))

    def test_columns_have_the_types_of_the_document(self):
        frame = forebay.trace(files.capture(1000)).to_pandas()
        types = {name: str(kind) for name, kind in frame.dtypes.items()}
        for name, kind in [("issued_ns", "int64"), ("latency_ns", "Int64"), ("op", "category"), ("fua", "boolean"), ("inode", "UInt64"), ("pid", "UInt32")]:
            self.assertEqual(types[name], kind)
        frame.loc[0, "issued_ns"] = 7
        self.assertEqual(frame.issued_ns[0], 7, "a frame can be changed")

    def test_sums_by_kind_are_those_of_the_csv(self):
        path = files.capture(100_000)
        counts, sums = {}, {}
        with open(files.converted(path, ".csv"), newline="") as file:
            for row in csv.DictReader(file):
                counts[row["op"]] = counts.get(row["op"], 0) + 1
                sums[row["op"]] = sums.get(row["op"], 0) + int(row["len_bytes"])
        self.assertGreater(len(counts), 4)
        frame = forebay.trace(path, columns=["op", "size_bytes"]).to_pandas()
        found = frame.groupby("op", observed=True).size_bytes
        self.assertEqual((found.count().to_dict(), found.sum().to_dict()), (counts, sums))
        frame = forebay.trace(path, columns=["op", "size_bytes"]).to_polars()
        found = frame.group_by("op").agg(pl.len().alias("count"), pl.sum("size_bytes"))
        self.assertEqual(dict(zip(found["op"].to_list(), found["size_bytes"].to_list())), sums)

    def test_parquet_is_read_as_the_capture_itself(self):
        path = files.capture(1000)
        parquet = files.converted(path, ".parquet")
        self.check_against_parquet(forebay.trace(parquet), parquet)

    def test_packed_texts_and_generators_are_traces_too(self):
        text = files.converted(files.capture(1000), ".csv")
        packed = files.folder() / "packed.bin"
        packed.write_bytes(gzip.compress(text.read_bytes()))
        for path in (text, packed):
            self.check_against_parquet(forebay.trace(path), files.converted(text, ".parquet"))
        self.check_against_parquet(
            forebay.trace("ycsb:?operations=5000&seed=3"), files.converted_generator("ycsb:?operations=5000&seed=3")
        )

    def test_a_directory_by_volume_is_one_trace(self):
        path = files.capture(1000)
        fleet = files.folder() / "fleet"
        files.forebay("convert", path, fleet, "--to-format", "parquet-by-volume")
        frame, whole = forebay.trace(fleet).to_pandas(), forebay.trace(path).to_pandas()
        wanted = whole.groupby("volume", observed=True).size_bytes.sum().to_dict()
        self.assertEqual(len(wanted), 2)
        self.assertEqual(frame.groupby("volume", observed=True).size_bytes.sum().to_dict(), wanted)

    def test_a_rotated_capture_is_one_trace(self):
        first = files.folder() / "rotated.fbr"
        for name in ("rotated.fbr", "rotated.1.fbr", "rotated.3.fbr"):
            subprocess.run([os.environ["CAPTURE"], files.folder() / name, "1000"], check=True)
        with self.assertWarnsRegex(forebay.IncompleteWarning, "1 files of the capture are missing before"):
            self.assertEqual(len(forebay.trace(first)), 3000)
        self.assertEqual(len(forebay.trace(files.folder() / "rotated.1.fbr")), 1000, "a later file by its own name is that alone")

    def test_batches_are_the_whole_in_parts(self):
        path = files.capture(100_000)
        whole = forebay.trace(path)
        parts = list(forebay.trace_batches(path, rows=30_001))
        self.assertEqual([len(part) for part in parts], [30_001, 30_001, 30_001, 9_997])
        for name in whole.columns:
            joined = np.concatenate([part[name] for part in parts])
            self.assertTrue(np.array_equal(joined, whole[name]), name)
        polars = pl.concat([part.to_polars() for part in parts])
        self.assertTrue(polars.equals(whole.to_polars()))

    def test_a_limit_and_columns_make_it_smaller(self):
        path = files.capture(100_000)
        part = forebay.trace(path, columns=["fua", "issued_ns"], limit=300_000 // 7)
        self.assertEqual((list(part.columns), len(part)), (["issued_ns", "fua"], 42_857))
        whole = forebay.trace(path)
        self.assertTrue(np.array_equal(part["fua"], whole["fua"][:42_857]))
        self.assertEqual(len(forebay.trace(path, limit=0)), 0)

    def test_nothing_is_a_frame_of_no_rows_with_the_same_types(self):
        empty, some = forebay.trace(files.capture(0)), forebay.trace(files.capture(1000))
        self.assertTrue(empty.is_whole)
        self.assertEqual(len(empty.to_pandas()), 0)
        self.assertEqual(empty.to_pandas().dtypes.drop(["volume", "process", "path"]).to_dict(), some.to_pandas().dtypes.drop(["volume", "process", "path"]).to_dict())
        self.assertEqual(empty.to_polars().schema, some.to_polars().schema)
        self.assertEqual(list(forebay.trace_batches(files.capture(0))), [])

    def test_what_the_recording_says_of_itself_is_there(self):
        trace = forebay.trace(files.capture(1000))
        self.assertEqual(trace.begin_unix_ns, 1_700_000_000_123_456_789)
        self.assertEqual([volume["name"] for volume in trace.facts["capture"]["volumes"]], ["nvme0n1", "nvme1n1"])
        self.assertTrue(trace.is_whole and trace.knows["latency"])
        self.assertEqual(trace.to_pandas().attrs["forebay"], trace.facts)
        self.assertIsNone(forebay.trace("zipf:", limit=10).begin_unix_ns)


class Incomplete(unittest.TestCase):
    def test_dropped_events_and_what_no_column_holds_are_told(self):
        path = files.capture(1000, 12, "odd")
        with self.assertWarnsRegex(forebay.IncompleteWarning, "12 events are missing.*1 requests do not fit.*the first at 6: offset_bytes of 9223372036854775808"):
            trace = forebay.trace(path)
        self.assertEqual((trace.missing, trace.refused, len(trace), trace.is_whole), (12, 1, 999, False))
        self.assertEqual(trace.to_pandas().attrs["forebay"]["faults"]["missing"], 12)
        # Convert leaves out the same.
        parquet = files.converted(path, ".parquet")
        self.assertEqual(trace.to_polars()["offset_bytes"].to_list(), pl.read_parquet(parquet)["offset_bytes"].to_list())
        # And its Parquet still says what was dropped.
        self.assertEqual(quiet(parquet).missing, 12)
        with self.assertWarns(forebay.IncompleteWarning):
            list(forebay.trace_batches(path))

    def test_a_capture_cut_off_by_a_kill_is_read_up_to_there(self):
        whole = files.capture(100_000).read_bytes()
        path = files.folder() / "killed.fbr"
        path.write_bytes(whole[: 4_000_000])
        with self.assertWarnsRegex(forebay.IncompleteWarning, "killed.fbr: .* parts could not be read, the first at [0-9]+: "):
            trace = forebay.trace(path)
        self.assertEqual(len(trace), 40_000)
        self.assertEqual(trace.fault_count, len(trace.faults))
        self.assertIn("damaged", trace.faults[0].what)

    def test_damage_that_ends_the_reading_is_an_exception_and_batches_give_what_was_before(self):
        packed = gzip.compress(files.converted(files.capture(100_000), ".csv").read_bytes())
        path = files.folder() / "cut.csv.gz"
        path.write_bytes(packed[: len(packed) // 2])
        with self.assertRaisesRegex(forebay.FormatError, "cut.csv.gz: cannot be read from byte [0-9]+ on; the file is damaged or cut off"):
            forebay.trace(path)
        rows = 0
        with self.assertRaises(forebay.FormatError):
            for part in forebay.trace_batches(path, rows=1000):
                rows += len(part)
        self.assertGreater(rows, 10_000)


class Refused(unittest.TestCase):
    def test_what_is_no_trace_says_what_to_do(self):
        records, _, result = files.run()
        noise = files.folder() / "noise"
        noise.write_bytes(random.Random(1).randbytes(5000))
        nothing = files.folder() / "nothing"
        nothing.write_bytes(b"")
        for path in (records, result, noise, nothing):
            with self.assertRaisesRegex(forebay.FormatError, f"{path.name}: .*format=.*forebay.records"):
                forebay.trace(path)
        with self.assertRaises(FileNotFoundError) as raised:
            forebay.trace(files.folder() / "nowhere.fbr")
        self.assertTrue(raised.exception.filename.endswith("nowhere.fbr"))
        with self.assertRaisesRegex(forebay.FormatError, "volume=NAME"):
            forebay.trace(files.folder())
        with self.assertRaisesRegex(forebay.FormatError, "no such format; there are vscsi"):
            forebay.trace(noise, format="vcsi")
        with self.assertRaisesRegex(forebay.FormatError, "no parameter"):
            forebay.trace("ycsb:?ops=1")
        with self.assertRaisesRegex(ValueError, "no column 'latency'; there are issued_ns"):
            forebay.trace(files.capture(1000), columns=["latency"])
        with self.assertRaisesRegex(TypeError, "give a list"):
            forebay.trace(files.capture(1000), columns="op")
        for wrong in ({"limit": -1}, {"columns": []}):
            with self.assertRaises(ValueError):
                forebay.trace(files.capture(1000), **wrong)
        with self.assertRaises(ValueError):
            forebay.trace_batches(files.capture(1000), rows=0)

    def test_a_pipe_is_refused_and_not_waited_for(self):
        path = files.folder() / "pipe"
        os.mkfifo(path)
        for reader in ("trace", "records", "results"):
            done = subprocess.run(
                [sys.executable, "-c", f"import forebay, sys; forebay.{reader}(sys.argv[1])", path], capture_output=True, text=True, timeout=60
            )
            self.assertEqual(done.returncode, 1)
            self.assertIn("FormatError", done.stderr)

    def test_damage_of_a_capture_or_of_its_parquet_does_no_harm(self):
        """One byte in so many changed, and the file cut off there: a table or a clear exception, and nothing else."""
        capture = files.capture(60)
        tried = 0
        for source, step in ((capture, 7), (files.converted(capture, ".parquet"), 11)):
            data = source.read_bytes()
            path = files.folder() / f"hostile{source.suffix}"
            for at in range(0, len(data), step):
                for changed in (data[:at], data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]):
                    path.write_bytes(changed)
                    try:
                        quiet(path).to_pandas()
                    except forebay.FormatError as error:
                        self.assertIn(path.name, str(error))
                    tried += 1
        self.assertGreater(tried, 1000)


if __name__ == "__main__":
    unittest.main()
