"""Results: what `forebay` prints with `--output json`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Optional, Union

from ._errors import FormatError
from ._table import Framed

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Path = Union[str, "os.PathLike[str]"]

#: Version of the shape of results that is known here.
SCHEMA_VERSION = 1
#: Columns of a table at most: more make no result of forebay's.
COLUMNS_MAX = 4096
#: What tells the rows of a list apart: rows of the lists below it carry that.
IDENTITY = (
    "name", "target.name", "kind", "depth", "test", "op", "trace", "volume", "drive",
    "fill_percent", "read_percent", "size_bytes", "think_ns", "burst_ios", "pause_ns",
)

_INT64_MAX = (1 << 63) - 1
_UINT64_MAX = (1 << 64) - 1


class Rows(Framed):
    """A list of a result as a table: `rows` are dictionaries, columns the paths of the JSON within a row, such as `iops_interval.low`."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> None:
        self.rows = list(rows)
        #: What the whole result says, as `Results.facts`.
        self.facts = dict(facts)

    @property
    def columns(self) -> list[str]:
        """Names of the columns: all that any row has, in the order in which they first come."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return f"<Rows: {len(self)} of {', '.join(self.columns)}>"

    def to_pandas(self) -> pd.DataFrame:
        import pandas as pd

        # Texts are what this pandas holds texts as.
        types = {"bool": "boolean", "int": "Int64", "uint": "UInt64", "float": "float64", "text": None}
        columns = {}
        for name in self.columns:
            kind, values = self._column(name)
            columns[name] = pd.Series(values, dtype=types.get(kind, "object"))
        frame = pd.DataFrame(columns)
        frame.attrs["forebay"] = self.facts
        return frame

    def to_polars(self) -> pl.DataFrame:
        import polars as pl

        types = {"bool": pl.Boolean, "int": pl.Int64, "uint": pl.UInt64, "float": pl.Float64, "text": pl.String}
        columns = []
        for name in self.columns:
            kind, values = self._column(name)
            columns.append(pl.Series(name, values, dtype=types.get(kind), strict=False))
        return pl.DataFrame(columns)

    def _column(self, name: str) -> tuple[str, list[Any]]:
        """A column's values, and of which kind all of them are; what a row lacks, and what is null, is `None`."""
        values = [row.get(name) for row in self.rows]
        types = {type(value) for value in values if value is not None}
        if types == {bool}:
            return "bool", values
        if types == {str}:
            return "text", values
        if types == {int}:
            numbers = [value for value in values if value is not None]
            if min(numbers) >= -_INT64_MAX - 1 and max(numbers) <= _INT64_MAX:
                return "int", values
            if min(numbers) >= 0:
                return "uint", values
            types = {float}
        if types and types <= {int, float}:
            return "float", [None if value is None else float(value) for value in values]
        return "other", values


class Results:
    """A result: `json` is all of it; lists of objects in it are tables by their paths (`tables`)."""

    def __init__(self, name: str, value: dict[str, Any]) -> None:
        self.name = name
        #: The result as it was written.
        self.json = value
        #: What stands in no list, by its path: `target`, `exact`, `report.one_block_in`, ...
        self.facts: dict[str, Any] = {path: found for path, found in _flat(value).items() if not isinstance(found, list)}
        lists: dict[str, list[dict[str, Any]]] = {}
        self._parents: dict[str, str] = {}
        self._walk(value, "", "", {}, lists)
        #: The lists of objects, by their paths in the JSON: `jobs`, `jobs.kinds`, `result.results.points`, ...
        self.tables: dict[str, Rows] = {}
        for path, rows in lists.items():
            table = Rows(rows, self.facts)
            if len({column for row in rows for column in row}) > COLUMNS_MAX:
                raise FormatError(f"{name}: {path} has more than {COLUMNS_MAX} columns; this is no result of forebay's")
            self.tables[path] = table

    def _walk(
        self, value: Any, path: str, parent: str, carried: Mapping[str, Any], lists: dict[str, list[dict[str, Any]]]
    ) -> None:
        """Collects the lists of objects below `value`. `carried` tells the rows of the lists above apart."""
        for key, inner in value.items():
            inner_path = f"{path}.{key}" if path else key
            if _is_histogram(inner):
                columns = zip(inner["low_ns"], inner["high_ns"], inner["counts"])
                buckets = [{**carried, "low_ns": low, "high_ns": high, "count": count} for low, high, count in columns]
                lists.setdefault(inner_path, []).extend(buckets)
                self._parents[inner_path] = parent
            elif isinstance(inner, dict):
                self._walk(inner, inner_path, parent, carried, lists)
            elif _is_table(inner):
                rows = lists.setdefault(inner_path, [])
                self._parents[inner_path] = parent
                flats = [_flat(row) for row in inner]
                known = [{f"{key}.{name}": flat[name] for name in IDENTITY if isinstance(flat.get(name), (str, int))} for flat in flats]
                # Rows that nothing of these tells apart are numbered.
                are_alike = len({tuple(some.items()) for some in known}) < len(known) or not all(known)
                for number, (row, flat) in enumerate(zip(inner, flats), 1):
                    rows.append({**carried, **flat})
                    own = {**known[number - 1], **({f"{key}.number": number} if are_alike else {})}
                    self._walk(row, inner_path, inner_path, {**carried, **own}, lists)

    @property
    def command(self) -> list[str]:
        """The words of the command that made the result."""
        return list(self.json.get("command") or [])

    @property
    def notes(self) -> list[str]:
        """What is to be known of the result."""
        return list(self.json.get("notes") or [])

    def __repr__(self) -> str:
        return f"<Results of {self.name}: {', '.join(self.tables)}>"

    def __getitem__(self, path: str) -> Rows:
        """The table of a path, or of its end where only one has it: `results["points"]` is `result.results.points`."""
        if path in self.tables:
            return self.tables[path]
        found = [name for name in self.tables if name.endswith(f".{path}")]
        if len(found) == 1:
            return self.tables[found[0]]
        what = f"several tables end so: {', '.join(found)}" if found else f"there are {', '.join(self.tables)}"
        raise KeyError(f"{self.name} has no table {path!r}; {what}")

    def _shortcut(self, path: str) -> Rows:
        if path.split(".")[0] not in self.json:
            raise KeyError(f"{self.name}: is no result of jobs; there are {', '.join(self.tables)}")
        return self.tables.get(path, Rows([], self.facts))

    @property
    def jobs(self) -> Rows:
        """Of `bench` and `replay`: a row for each job (and target): rates with their intervals, depths, costs."""
        return self._shortcut("jobs")

    @property
    def kinds(self) -> Rows:
        """Of `bench` and `replay`: a row for each job (and target) and kind of I/O."""
        return self._shortcut("jobs.kinds")

    @property
    def intervals(self) -> Rows:
        """Of `bench` and `replay`: the time series, a row for each job (and target) and interval."""
        return self._shortcut("jobs.intervals")

    @property
    def percentiles(self) -> Rows:
        """Latencies: a row for each percentile of whatever has some, with its interval.

        `latency` says of what within its row (`total`, `device`, `submission`; `all`, `by_kind.read`). Values are null where
        samples were too few.
        """
        rows = []
        for parent, latency, table in self._latencies("percentiles"):
            for row in table.rows:
                renamed = {f"{name}_ns" if name in ("value", "low", "high") else name: found for name, found in row.items()}
                own = {name: found for name, found in renamed.items() if name in _PERCENTILE}
                others = {name: found for name, found in renamed.items() if name not in _PERCENTILE}
                rows.append({"of": parent, **others, "latency": latency, **own})
        return Rows(rows, self.facts)

    @property
    def histograms(self) -> Rows:
        """Latencies: a row for each bucket of whatever has a histogram: its least and greatest value, `low_ns` and `high_ns`,
        and the `count` of the I/Os within. `latency` says of what, as in `percentiles`.
        """
        rows = []
        for parent, latency, table in self._latencies("histogram"):
            for row in table.rows:
                own = {name: row[name] for name in _BUCKET}
                others = {name: found for name, found in row.items() if name not in _BUCKET}
                rows.append({"of": parent, **others, "latency": latency, **own})
        return Rows(rows, self.facts)

    def _latencies(self, what: str) -> Iterator[tuple[str, str, Rows]]:
        """Tables of this name within latencies: the path of the rows that have them, what of these they are of, the table."""
        for path, table in self.tables.items():
            above, dot, last = path.rpartition(".")
            if last == what and dot:
                parent = self._parents[path]
                within = above[len(parent) + 1 :] if parent else above
                _, _, short = within.partition(".")
                yield parent, short or within, table


_PERCENTILE = ("percentile", "status", "value_ns", "low_ns", "high_ns", "samples_needed_more", "effective_samples")
_BUCKET = ("low_ns", "high_ns", "count")


def _is_histogram(value: Any) -> bool:
    """Whether it is an object of three lists of equal length, as the latencies of results have them."""
    if not isinstance(value, dict) or set(value) != {"low_ns", "high_ns", "counts"}:
        return False
    columns = list(value.values())
    return all(isinstance(column, list) for column in columns) and len({len(column) for column in columns}) == 1


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _flat(value: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in an object, by paths; its lists of objects, and its histograms, are tables of their own."""
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if _is_histogram(inner):
            continue
        if isinstance(inner, dict):
            found.update((f"{key}.{path}", deeper) for path, deeper in _flat(inner).items())
        elif not _is_table(inner):
            found[key] = inner
    return found


def _integer(text: str) -> int:
    number = int(text)
    if not -_INT64_MAX - 1 <= number <= _UINT64_MAX:
        raise ValueError(f"number out of range: {text[:40]}")
    return number


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"number out of range: {text[:40]}")
    return number


def results(source: Union[Path, IO[str], IO[bytes]]) -> Results:
    """Reads a result that `forebay bench`, `replay`, `check`, `analyze`, `size`, ... printed with ``--output json``.

    source
        The file's path, or an open file.

    Raises `FormatError` where it is no such result or one of another ``schema_version``, and ``OSError``.
    """
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        if os.path.exists(name) and not os.path.isfile(name) and not os.path.isdir(name):
            raise FormatError(f"{name}: is no regular file")
        with open(name, "rb") as file:
            data: Union[str, bytes] = file.read()
    else:
        name = str(getattr(source, "name", "result"))
        data = source.read()
    try:
        value = json.loads(data, parse_int=_integer, parse_float=_number, parse_constant=_number)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name}: is no JSON: {error}; give what forebay writes with --output json") from error
    version: Optional[Any] = value.get("schema_version") if isinstance(value, dict) else None
    if not isinstance(value, dict) or version is None:
        raise FormatError(
            f"{name}: is no result of forebay's: schema_version is missing; give what forebay writes with --output json"
        )
    if type(version) is not int or version != SCHEMA_VERSION:
        raise FormatError(
            f"{name}: schema_version {str(version)[:40]} is not known: this package reads {SCHEMA_VERSION}; "
            "use the package of the forebay that wrote it, or a newer one"
        )
    try:
        return Results(name, value)
    except RecursionError as error:
        raise FormatError(f"{name}: is nested too deep for a result of forebay's") from error
