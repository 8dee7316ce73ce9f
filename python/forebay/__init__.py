"""Reads what Forebay writes: traces, records of single I/Os, and results.

    import forebay

    forebay.trace("trace.fbr").to_pandas()          # what `forebay record` recorded, or any trace that it reads
    forebay.records("run.fbt").to_polars()          # every I/O of a `forebay bench --records run.fbt`
    forebay.results("bench.json").percentiles.to_pandas()   # what `--output json` printed

Names of columns end in their units and are those of docs/trace-parquet.md and docs/telemetry.md. Something that is missing
(dropped events, damage) is reported by `IncompleteWarning` and by the tables' attributes.
"""

from ._errors import FormatError, IncompleteWarning
from ._records import Records, records, records_batches
from ._results import Results, Rows, results
from ._table import Column, Framed, Table
from ._trace import Fault, Trace, trace, trace_batches

__all__ = [
    "Column",
    "Fault",
    "FormatError",
    "Framed",
    "IncompleteWarning",
    "Records",
    "Results",
    "Rows",
    "Table",
    "Trace",
    "records",
    "records_batches",
    "results",
    "trace",
    "trace_batches",
]
