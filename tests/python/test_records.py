"""Records are what `forebay bench --parquet` says that they are."""

import unittest
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq

import files
import forebay
from forebay import _parquet


class Whole(unittest.TestCase):
    def test_they_are_those_of_the_parquet(self):
        path, parquet, _ = files.run()
        expected = pq.read_table(parquet)
        self.assertGreater(expected.num_rows, 10_000)
        for found in (forebay.records(path), forebay.records(parquet)):
            self.assertEqual(list(found.columns), expected.column_names)
            pandas, polars = found.to_pandas(), found.to_polars()
            for name in expected.column_names:
                wanted = expected[name].to_pylist()
                with self.subTest(column=name):
                    self.assertEqual(pandas[name].to_list(), wanted)
                    self.assertEqual(polars[name].to_list(), wanted)

    def test_facts_are_those_of_the_parquet(self):
        path, parquet, _ = files.run()
        ours, theirs = forebay.records(path), forebay.records(parquet)
        pairs = {key.decode(): value.decode() for key, value in pq.ParquetFile(parquet).metadata.metadata.items()}
        self.assertEqual((ours.run_id, str(ours.begin_unix_ns)), (pairs["forebay.run_id"], pairs["forebay.begin_unix_ns"]))
        self.assertTrue(ours.is_whole and theirs.is_whole)
        self.assertEqual({**ours.facts, "has_footer": None}, theirs.facts)
        self.assertEqual(ours.metadata["target"], "model:p4610")

    def test_polars_reads_the_parquet_as_pyarrow_does(self):
        _, parquet, _ = files.run()
        names = [kind.name for kind in forebay._records.KINDS]
        (by_polars, its_pairs), (by_pyarrow, pairs) = _parquet._by_polars(parquet, names), _parquet._by_pyarrow(parquet, names)
        for name in names:
            self.assertTrue(np.array_equal(by_polars[name][0], by_pyarrow[name][0]), name)
            self.assertEqual(by_polars[name][1], by_pyarrow[name][1])
        self.assertEqual({key: its_pairs[key] for key in pairs}, pairs)

    def test_sums_by_job_and_kind_are_those_of_the_result(self):
        path, _, result = files.run()
        frame = forebay.records(path).to_pandas()
        kinds = forebay.results(result).kinds.to_pandas()
        found = frame[~frame.error].groupby(["job", "op"], observed=True).size_bytes.agg(["count", "sum"])
        wanted = kinds.set_index(["jobs.name", "kind"])
        self.assertEqual(len(wanted), 4)
        for key in wanted.index:
            self.assertEqual(tuple(found.loc[key]), (wanted.loc[key, "ios"], wanted.loc[key, "bytes"]), key)

    def test_batches_are_the_whole_in_parts(self):
        path, _, _ = files.run()
        whole, parts = forebay.records(path), list(forebay.records_batches(path, rows=7_001))
        self.assertEqual({len(part) for part in parts[:-1]}, {7_001})
        for name in whole.columns:
            self.assertTrue(np.array_equal(np.concatenate([part[name] for part in parts]), whole[name]), name)
        self.assertTrue(pl.concat([part.to_polars() for part in parts]).equals(whole.to_polars()))

    def test_a_run_of_nothing_is_a_frame_of_no_rows_with_the_same_types(self):
        path, _, _ = files.run()
        whole = path.read_bytes()
        # The header alone, which is where the first segment begins.
        empty = files.folder() / "empty.fbt"
        empty.write_bytes(whole[: whole.index(b"FBTSEGMT")])
        with self.assertWarnsRegex(forebay.IncompleteWarning, "the run did not end in order"):
            found = forebay.records(empty)
        self.assertEqual(len(found), 0)
        self.assertEqual(found.to_polars().schema, forebay.records(path).to_polars().schema)
        self.assertEqual(found.to_pandas().dtypes.to_dict(), forebay.records(path, columns=list(found.columns)).to_pandas().dtypes.to_dict())


class Incomplete(unittest.TestCase):
    def test_what_a_kill_has_left_is_read_and_told(self):
        path, _, _ = files.run()
        whole = path.read_bytes()
        torn = files.folder() / "torn.fbt"
        torn.write_bytes(whole[: len(whole) // 2])
        with self.assertWarnsRegex(forebay.IncompleteWarning, "torn.fbt: the run did not end in order"):
            found = forebay.records(torn)
        self.assertFalse(found.is_whole)
        self.assertGreater(found.facts["torn_tail_bytes"], 0)
        self.assertTrue(0 < len(found) < len(forebay.records(path)))

    def test_damage_in_the_middle_is_passed_over_and_told(self):
        path, _, _ = files.run()
        data = bytearray(path.read_bytes())
        data[data.index(b"FBTSEGMT") + 100] ^= 1
        damaged = files.folder() / "damaged.fbt"
        damaged.write_bytes(data)
        with self.assertWarnsRegex(forebay.IncompleteWarning, "1 segments are missing and [0-9]+ bytes are damaged"):
            found = forebay.records(damaged)
        # What `convert`'s counterpart makes of it has the same rows.
        parquet = files.folder() / "damaged.parquet"
        files.forebay("bench", "--records", damaged, "--parquet", parquet, status=1)
        self.assertEqual(len(found), pq.ParquetFile(parquet).metadata.num_rows)
        with self.assertWarnsRegex(forebay.IncompleteWarning, "1 segments are missing"):
            self.assertEqual(len(forebay.records(parquet)), len(found))


class Refused(unittest.TestCase):
    def test_what_are_no_records_says_what_to_do(self):
        _, _, result = files.run()
        capture = files.capture(1000)
        for path in (capture, result):
            with self.assertRaisesRegex(forebay.FormatError, f"{path.name}: not a telemetry file.*give the .fbt file"):
                forebay.records(path)
        with self.assertRaisesRegex(forebay.FormatError, "traces are read by forebay.trace"):
            forebay.records(files.converted(capture, ".parquet"))
        with self.assertRaises(FileNotFoundError):
            forebay.records(files.folder() / "nowhere.fbt")
        with self.assertRaisesRegex(ValueError, "no column 'latency_ns'"):
            forebay.records(files.run()[0], columns=["latency_ns"])
        for length in (3, 2000):
            cut = files.folder() / "cut.parquet"
            cut.write_bytes(files.run()[1].read_bytes()[:length])
            with self.assertRaisesRegex(forebay.FormatError, "cut.parquet"):
                forebay.records(cut)

    def test_damage_of_the_headers_does_no_harm(self):
        """One byte in three of the header and of the first segment's changed, and the file cut off there."""
        whole = files.run()[0].read_bytes()
        at = whole.index(b"FBTSEGMT")
        data = whole[: at + 64]
        path = files.folder() / "hostile.fbt"
        tried = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", forebay.IncompleteWarning)
            for at in range(0, len(data), 3):
                for changed in (data[:at], data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]):
                    path.write_bytes(changed)
                    try:
                        forebay.records(path).to_pandas()
                    except forebay.FormatError as error:
                        self.assertIn("hostile.fbt", str(error))
                    tried += 1
        self.assertGreater(tried, 500)


if __name__ == "__main__":
    unittest.main()
