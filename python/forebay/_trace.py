"""Traces: what `forebay record` has recorded, and all else that `forebay convert` reads."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional, Union

import numpy as np

from ._errors import IncompleteWarning
from ._native import TraceReader
from ._table import Array, Column, Growing, Kind, Table, arrays, chosen

Path = Union[str, "os.PathLike[str]"]

#: Rows that are read at a time.
CHUNK_ROWS = 1 << 18

OPS = ("read", "write", "discard", "write-zeroes", "flush", "access")
LIFETIMES = ("not-set", "none", "short", "medium", "long", "extreme")
#: Columns that are bits of `flags`.
BITS = {"meta": 0, "sync": 1, "fua": 2}

#: Those of docs/trace-parquet.md.
KINDS = (
    Kind("issued_ns"),
    Kind("op", "uint8", is_text=True),
    Kind("offset_bytes"),
    Kind("size_bytes"),
    Kind("latency_ns", null=-1),
    Kind("queued_ns", null=-1),
    Kind("volume", "int32", null=-1, is_text=True),
    Kind("lifetime", "uint8", null=255, is_text=True),
    Kind("flags", "int32", null=-1),
    Kind("meta", "bool"),
    Kind("sync", "bool"),
    Kind("fua", "bool"),
    Kind("depth", "int32", null=-1),
    Kind("io_class", "int32", null=-1),
    Kind("process", "int32", null=-1, is_text=True),
    Kind("pid", "uint32", null=0),
    Kind("cgroup", "uint64", null=0),
    Kind("inode", "uint64", null=0),
    Kind("path", "int32", null=-1, is_text=True),
)


class Fault(NamedTuple):
    """A part that could not be read."""

    #: The line of a text (from 1), the byte of a binary file, or the number of a request.
    place: int
    #: What is wrong there.
    what: str


class Trace(Table):
    """The requests of a trace, or of a part of it; one row each, in the order in which the trace has them."""

    @property
    def missing(self) -> int:
        """Events that whoever recorded the trace says it has dropped. Nobody knows where."""
        return int(self.facts["faults"]["missing"])

    @property
    def fault_count(self) -> int:
        """How many lines or records could not be read."""
        return int(self.facts["faults"]["count"])

    @property
    def faults(self) -> list[Fault]:
        """The first of what could not be read."""
        return [Fault(fault["place"], fault["what"]) for fault in self.facts["faults"]["first"]]

    @property
    def refused(self) -> int:
        """Requests with values above 2^63 - 1, which no column holds: they are left out."""
        return int(self.facts["refused"]["count"])

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing of what was read up to the end of this table."""
        return self.missing == 0 and self.fault_count == 0 and self.refused == 0

    @property
    def knows(self) -> dict[str, bool]:
        """What the trace can tell at all: `time`, `latency`, `depth`, `process`, ..."""
        return dict(self.facts["knows"])

    @property
    def notes(self) -> list[str]:
        """What the reader had to decide, a sentence each."""
        return list(self.facts["notes"])

    @property
    def begin_unix_ns(self) -> Optional[int]:
        """When the recording began, in ns since 1970-01-01 UTC: the zero of `issued_ns`. `None` where the format does not tell."""
        capture = self.facts["capture"]
        return None if capture is None else int(capture["begin_unix_ns"])


class _Reader:
    """A trace being read, in tables."""

    def __init__(self, path: Path, format: Optional[str], columns: Optional[Sequence[str]]) -> None:
        self.columns = chosen(KINDS, columns, "traces")
        wanted = {"flags" if name in BITS else name for name in self.columns}
        #: What is read; the rest is made of it.
        self.given = [kind for kind in KINDS if kind.name in wanted]
        self.reader = TraceReader(path, format, [kind.name for kind in self.given])
        self.names: dict[str, list[str]] = {}

    def read(self, rows: int) -> Optional[dict[str, Array]]:
        given = self.reader.read(rows)
        return None if given is None else arrays(given)

    def table(self, *chunks: dict[str, Array]) -> Trace:
        grown = Growing(self.given)
        for chunk in chunks:
            grown.add(chunk)
        return self.made(grown)

    def made(self, grown: Growing) -> Trace:
        found = grown.columns()
        facts = json.loads(self.reader.facts())
        columns = {}
        for kind in (kind for kind in KINDS if kind.name in self.columns):
            if kind.name in BITS:
                flags = found["flags"]
                columns[kind.name] = Column((flags >> BITS[kind.name] & 1).astype(np.bool_), flags != -1)
            else:
                columns[kind.name] = Column.of(kind, found[kind.name], self._names(kind))
        return Trace(columns, facts)

    def _names(self, kind: Kind) -> Optional[Sequence[str]]:
        if not kind.is_text:
            return None
        if kind.name == "op":
            return OPS
        if kind.name == "lifetime":
            return LIFETIMES
        # A new list: tables that were given out keep theirs.
        known = self.names.get(kind.name, [])
        new = self.reader.names(kind.name, len(known))
        if new or kind.name not in self.names:
            self.names[kind.name] = known + new
        return self.names[kind.name]


def trace(
    path: Path,
    *,
    format: Optional[str] = None,
    columns: Optional[Sequence[str]] = None,
    limit: Optional[int] = None,
) -> Trace:
    """Reads a trace into memory.

    path
        A recording (``NAME.fbr``; named by its first file it is read with all that rotation has made), any other trace
        that ``forebay convert`` reads, packed or not (docs/traces.md), its Parquet, a directory ``volume=NAME/*.parquet``,
        or a generator such as ``"ycsb:?operations=100000"``.
    format
        Its name in docs/traces.md, where it is not recognised.
    columns
        Those that are wanted; all by default. Fewer take less memory and time.
    limit
        Stop after so many requests.

    Warns with `IncompleteWarning` where something is missing of it. Raises `FormatError` where it is no trace, or damaged so
    that it cannot be read on (`trace_batches` gives what was before), and ``OSError``.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit is {limit}; give 0 or more")
    reader = _Reader(path, format, columns)
    grown = Growing(reader.given)
    while limit is None or grown.rows < limit:
        chunk = reader.read(CHUNK_ROWS if limit is None else min(CHUNK_ROWS, limit - grown.rows))
        if chunk is None:
            break
        grown.add(chunk)
    found = reader.made(grown)
    _warn(path, found)
    return found


def trace_batches(
    path: Path, *, rows: int = 1 << 20, format: Optional[str] = None, columns: Optional[Sequence[str]] = None
) -> Iterator[Trace]:
    """Reads a trace in tables of so many rows (the last has fewer), one at a time: for what does not fit into memory.

    Facts of each table are those up to its end; `path`, `format` and `columns` are as for `trace`.
    """
    if rows < 1:
        raise ValueError(f"rows is {rows}; give 1 or more")
    reader = _Reader(path, format, columns)
    return _batches(path, reader, rows)


def _batches(path: Path, reader: _Reader, rows: int) -> Iterator[Trace]:
    while (chunk := reader.read(rows)) is not None:
        yield reader.table(chunk)
    _warn(path, reader.table())


def _warn(path: Path, found: Trace) -> None:
    if found.is_whole:
        return
    said = []
    if found.missing:
        said.append(f"{found.missing} events are missing: they were dropped while the trace was recorded, at times that are not known")
    for what, counted in (("parts could not be read", found.facts["faults"]), ("requests do not fit into columns", found.facts["refused"])):
        if counted["count"]:
            place = counted["first"][0]
            said.append(f"{counted['count']} {what}, the first at {place['place']}: {place['what']}")
    warnings.warn(f"{os.fspath(path)}: {'; '.join(said)}", IncompleteWarning, stacklevel=3)
