"""Records of single I/Os: what `forebay bench --records` writes, and its Parquet."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union

import numpy as np

from . import _parquet
from ._errors import IncompleteWarning
from ._native import RecordsReader
from ._table import Array, Column, Growing, Kind, Table, arrays, chosen

Path = Union[str, "os.PathLike[str]"]

#: Rows that are read at a time.
CHUNK_ROWS = 1 << 18

OPS = ("read", "write", "write-fua", "trim", "flush", "fsync")

#: Those of docs/telemetry.md.
KINDS = (
    Kind("job", "int32", is_text=True),
    Kind("thread", "int32"),
    Kind("op", "uint8", is_text=True),
    Kind("intended_ns"),
    Kind("submitted_ns"),
    Kind("completed_ns"),
    Kind("submission_latency_ns"),
    Kind("device_latency_ns"),
    Kind("total_latency_ns"),
    Kind("offset_bytes"),
    Kind("size_bytes", "uint32"),
    Kind("depth", "int32"),
    Kind("error", "bool"),
)


class Records(Table):
    """The I/Os of a run, or of a part of it; one row each, in the order of the file."""

    @property
    def dropped(self) -> int:
        """I/Os that the run made and the file does not hold; at least so many where it was not ended."""
        return int(self.facts["dropped"])

    @property
    def is_whole(self) -> bool:
        """Whether the file holds everything that was written to it. I/Os may have been dropped all the same."""
        return bool(self.facts["is_whole"])

    @property
    def run_id(self) -> str:
        """Identity of the run, 32 hex digits."""
        return str(self.facts["run_id"])

    @property
    def begin_unix_ns(self) -> int:
        """The run's begin in ns since 1970-01-01 UTC: the zero of all times."""
        return int(self.facts["begin_unix_ns"])

    @property
    def metadata(self) -> Any:
        """What the run says of itself, as JSON has it."""
        return json.loads(self.facts["metadata"])


class _Reader:
    """Records being read, in tables."""

    def __init__(self, path: Path, columns: Optional[Sequence[str]]) -> None:
        names = chosen(KINDS, columns, "records")
        self.kinds = [kind for kind in KINDS if kind.name in names]
        self.reader = RecordsReader(path, names)
        self.jobs = self.reader.jobs()

    def read(self, rows: int) -> Optional[dict[str, Array]]:
        given = self.reader.read(rows)
        return None if given is None else arrays(given)

    def table(self, *chunks: dict[str, Array]) -> Records:
        grown = Growing(self.kinds)
        for chunk in chunks:
            grown.add(chunk)
        return self.made(grown)

    def made(self, grown: Growing) -> Records:
        found = grown.columns()
        columns = {}
        for kind in self.kinds:
            values = found.pop(kind.name)
            if kind.dtype == "bool":
                values = values.astype(np.bool_)
            columns[kind.name] = Column.of(kind, values, self.jobs if kind.name == "job" else OPS)
        return Records(columns, json.loads(self.reader.facts()))


def records(path: Path, *, columns: Optional[Sequence[str]] = None) -> Records:
    """Reads the record of every I/O of a run into memory.

    path
        ``NAME.fbt``, as ``forebay bench --records`` writes it, or the Parquet of ``--parquet`` (which takes pyarrow or polars).
    columns
        Those that are wanted; all by default. Fewer take less memory and time.

    Warns with `IncompleteWarning` where something is missing. Raises `FormatError` where it is no such file, or its header is
    damaged, and ``OSError``.
    """
    if _parquet.is_parquet(path):
        names = chosen(KINDS, columns, "records")
        found = Records(*_parquet.records(path, [kind for kind in KINDS if kind.name in names]))
    else:
        reader = _Reader(path, columns)
        grown = Growing(reader.kinds)
        while (chunk := reader.read(CHUNK_ROWS)) is not None:
            grown.add(chunk)
        found = reader.made(grown)
    _warn(path, found)
    return found


def records_batches(path: Path, *, rows: int = 1 << 20, columns: Optional[Sequence[str]] = None) -> Iterator[Records]:
    """Reads ``NAME.fbt`` in tables of so many rows (the last has fewer), one at a time: for what does not fit into memory.

    Facts of each table are those up to its end.
    """
    if rows < 1:
        raise ValueError(f"rows is {rows}; give 1 or more")
    return _batches(path, _Reader(path, columns), rows)


def _batches(path: Path, reader: _Reader, rows: int) -> Iterator[Records]:
    while (chunk := reader.read(rows)) is not None:
        yield reader.table(chunk)
    _warn(path, reader.table())


def _warn(path: Path, found: Records) -> None:
    said = []
    facts = found.facts
    if found.dropped:
        said.append(f"{found.dropped} I/Os were dropped while the run went on")
    if facts["missing_segments"] or facts["damaged_bytes"]:
        said.append(f"{facts['missing_segments']} segments are missing and {facts['damaged_bytes']} bytes are damaged")
    if facts["has_footer"] is False:
        said.append("the run did not end in order, and what it dropped or lost later is not known")
    elif not found.is_whole and not said:
        said.append("the file does not hold all that was written to it")
    if said:
        warnings.warn(f"{os.fspath(path)}: {'; '.join(said)}", IncompleteWarning, stacklevel=3)
