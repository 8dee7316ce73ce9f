"""Parquet of records, through pyarrow or polars. (That of traces is read by our own reader.)"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from ._errors import FormatError
from ._table import Column, Kind

Path = Union[str, "os.PathLike[str]"]

#: How a Parquet file begins.
MAGIC = b"PAR1"
#: The version of the columns in docs/telemetry.md.
VERSION = "1"


def is_parquet(path: Path) -> bool:
    """Whether a file begins as Parquet does. What cannot be read, or is no regular file, does not."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def records(path: Path, kinds: Sequence[Kind]) -> tuple[dict[str, Column], dict[str, Any]]:
    """The columns of the records in a file, and its facts."""
    names = [kind.name for kind in kinds]
    try:
        if importlib.util.find_spec("pyarrow") is not None:
            values, pairs = _by_pyarrow(path, names)
        elif importlib.util.find_spec("polars") is not None:
            values, pairs = _by_polars(path, names)
        else:
            raise ImportError("Parquet of records takes pyarrow or polars: pip install pyarrow, or pip install polars")
    except (ImportError, OSError, FormatError):
        raise
    except Exception as error:
        raise FormatError(f"{os.fspath(path)}: cannot be read as Parquet: {error}") from error
    columns = {}
    for kind in kinds:
        data, texts = values[kind.name]
        columns[kind.name] = Column(data.astype(np.int32 if kind.is_text else kind.dtype, copy=False), None, texts)
    return columns, _facts(path, pairs)


def _facts(path: Path, pairs: dict[str, str]) -> dict[str, Any]:
    version = pairs.get("forebay.schema_version")
    if version is None or "forebay.run_id" not in pairs:
        raise FormatError(
            f"{os.fspath(path)}: is no Parquet of records (no forebay.run_id in its metadata); traces are read by forebay.trace"
        )
    if version != VERSION:
        raise FormatError(f"{os.fspath(path)}: version {version} of records is not known here (known: {VERSION}); use a newer package")
    try:
        return {
            "run_id": pairs["forebay.run_id"],
            "begin_unix_ns": int(pairs["forebay.begin_unix_ns"]),
            "metadata": pairs["forebay.metadata"],
            "records": int(pairs["forebay.records"]),
            "dropped": int(pairs["forebay.records_dropped"]),
            "is_whole": pairs["forebay.whole"] == "true",
            # Parquet does not tell.
            "has_footer": None,
            "missing_segments": int(pairs["forebay.missing_segments"]),
            "damaged_bytes": int(pairs["forebay.damaged_bytes"]),
            "torn_tail_bytes": int(pairs["forebay.torn_tail_bytes"]),
        }
    except (KeyError, ValueError) as error:
        raise FormatError(f"{os.fspath(path)}: its metadata is damaged: {error}") from error


def _missing(path: Path, names: Sequence[str], there: Sequence[str]) -> None:
    missing = [name for name in names if name not in there]
    if missing:
        raise FormatError(f"{os.fspath(path)}: has no column {missing[0]!r}; traces are read by forebay.trace")


def _by_pyarrow(path: Path, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(os.fspath(path)) as file:
        pairs = {key.decode(): value.decode() for key, value in (file.metadata.metadata or {}).items()}
        _missing(path, names, file.schema_arrow.names)
        table = file.read(columns=list(names))
    values: dict[str, Any] = {}
    for name in names:
        column = table[name]
        if name in ("job", "op"):
            found = column.combine_chunks().dictionary_encode()
            values[name] = (found.indices.to_numpy(zero_copy_only=False), found.dictionary.to_pylist())
        else:
            values[name] = (column.to_numpy(), None)
    return values, pairs


def _by_polars(path: Path, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    import polars as pl

    pairs = pl.read_parquet_metadata(os.fspath(path))
    _missing(path, names, list(pl.read_parquet_schema(os.fspath(path))))
    frame = pl.read_parquet(os.fspath(path), columns=list(names), glob=False)
    values: dict[str, Any] = {}
    for name in names:
        if name in ("job", "op"):
            texts = frame[name].unique(maintain_order=True)
            numbers = frame[name].replace_strict(texts, pl.Series(range(len(texts)), dtype=pl.Int32))
            values[name] = (numbers.to_numpy(), texts.to_list())
        else:
            values[name] = (frame[name].to_numpy(), None)
    return values, pairs
