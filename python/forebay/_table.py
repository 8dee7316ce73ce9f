"""Columns that become frames."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Kind:
    """What a column holds, as the readers give it."""

    name: str
    dtype: str = "int64"
    #: Stands for what is not known; a column without it knows all of its values.
    null: Optional[int] = None
    #: Whether values are numbers of names.
    is_text: bool = False


@dataclass(frozen=True)
class Column:
    """The values of a column.

    ``values[i]`` means something where ``valid`` is ``None`` or ``valid[i]``. Where there are ``names``, values are
    indices into them.
    """

    values: Array
    valid: Optional[npt.NDArray[np.bool_]] = None
    names: Optional[Sequence[str]] = None

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, kind: Kind, values: Array, names: Optional[Sequence[str]]) -> Column:
        """A column of what a reader gave."""
        valid = None if kind.null is None else values != values.dtype.type(kind.null)
        return cls(values, valid, names if kind.is_text else None)

    def to_pandas(self) -> Any:
        """The column as pandas holds it: texts as categories, and what may lack values in pandas' nullable types."""
        import pandas as pd

        if self.names is not None:
            codes = self.values.astype(np.int32)
            if self.valid is not None:
                codes[~self.valid] = -1
            return pd.Categorical.from_codes(codes, categories=pd.Index(list(self.names), dtype=object))
        if self.valid is None:
            return self.values
        if self.values.dtype == np.bool_:
            return pd.arrays.BooleanArray(self.values, ~self.valid)
        return pd.arrays.IntegerArray(self.values, ~self.valid)

    def to_polars(self, name: str) -> pl.Series:
        """The column as a series of polars: texts are categorical, what is not known is null."""
        import polars as pl

        if self.names is None:
            series = pl.Series(name, self.values)
        else:
            names = pl.Series(name, [*self.names, None], dtype=pl.Categorical)
            # The last is null.
            numbers = self.values.astype(np.int64)
            if self.valid is not None:
                numbers[~self.valid] = len(self.names)
            return names.gather(numbers)
        if self.valid is None or self.valid.all():
            return series
        return pl.select(pl.when(pl.Series(self.valid)).then(series).alias(name)).to_series()


class Framed(ABC):
    """Something that becomes a frame of pandas or polars."""

    @abstractmethod
    def to_pandas(self) -> pd.DataFrame:
        """A frame of pandas, which has to be installed: ``pip install 'forebay[pandas]'``."""

    @abstractmethod
    def to_polars(self) -> pl.DataFrame:
        """A frame of polars, which has to be installed: ``pip install 'forebay[polars]'``."""

    def frame(self) -> Union[pd.DataFrame, pl.DataFrame]:
        """A frame of what is installed: pandas, or else polars."""
        if importlib.util.find_spec("pandas") is not None:
            return self.to_pandas()
        if importlib.util.find_spec("polars") is not None:
            return self.to_polars()
        raise ImportError("neither pandas nor polars is installed: pip install pandas, or pip install polars")


class Table(Framed):
    """Columns of the same length, and what is known of where they came from (`facts`)."""

    def __init__(self, columns: Mapping[str, Column], facts: Mapping[str, Any]) -> None:
        #: The columns by their names, in order.
        self.columns = dict(columns)
        #: What the file says of itself, and what could not be read of it.
        self.facts = dict(facts)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} rows: {', '.join(self.columns)}>"

    def __getitem__(self, name: str) -> Array:
        """The values of a column as they are: of texts the numbers of `columns[name].names`."""
        return self.columns[name].values

    def to_pandas(self) -> pd.DataFrame:
        import pandas as pd

        frame = pd.DataFrame({name: column.to_pandas() for name, column in self.columns.items()}, copy=False)
        frame.attrs["forebay"] = self.facts
        return frame

    def to_polars(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame([column.to_polars(name) for name, column in self.columns.items()])


def chosen(kinds: Sequence[Kind], columns: Optional[Sequence[str]], what: str) -> list[str]:
    """The names of the columns that are wanted, in the order of the table; all where none are named."""
    known = [kind.name for kind in kinds]
    if columns is None:
        return known
    if isinstance(columns, str):
        raise TypeError(f'columns is one text; give a list: columns=["{columns}"]')
    if not columns:
        raise ValueError(f"columns is empty; there are {', '.join(known)}")
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise ValueError(f"{what} have no column {unknown[0]!r}; there are {', '.join(known)}")
    return [name for name in known if name in columns]


class Growing:
    """Columns that grow by chunks. What is not filled of their room takes no memory, so nothing is there twice but one column."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._room = {kind.name: np.empty(0, kind.dtype) for kind in kinds}
        self.rows = 0

    def add(self, chunk: dict[str, Array]) -> None:
        count = len(next(iter(chunk.values())))
        rows = self.rows + count
        for name, values in chunk.items():
            room = self._room[name]
            if self.rows == 0:
                # The arrays themselves: often there is no second chunk.
                self._room[name] = values
                continue
            if len(room) < rows:
                larger = np.empty(max(rows, 2 * len(room)), values.dtype)
                larger[: self.rows] = room[: self.rows]
                self._room[name] = room = larger
            room[self.rows : rows] = values
        self.rows = rows

    def columns(self) -> dict[str, Array]:
        return {name: room[: self.rows] for name, room in self._room.items()}


def arrays(given: Mapping[str, tuple[str, bytearray]]) -> dict[str, Array]:
    """What a reader gave, as arrays over the same bytes."""
    return {name: np.frombuffer(data, dtype=dtype) for name, (dtype, data) in given.items()}
