#!/usr/bin/env python3
"""The tables of a fleet of traces, by DuckDB on one machine: docs/fleets.md.

    pip install duckdb==2.0.1
    contrib/fleets/run_duckdb.py fleet tables

Exit codes: 0 good, 2 it could not be done, or for some volumes not.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import fleet as fleets

try:
    import duckdb
except ImportError:
    sys.exit("run_duckdb.py: the Python module duckdb is missing: pip install duckdb==2.0.1")

TEXT = ("BYTE_ARRAY",)
WHOLE = ("INT32", "INT64")


def literal(text):
    return "'" + str(text).replace("'", "''") + "'"


def check_columns(database, volumes):
    """Reads the indexes of all files: their columns must be there, and of the types that a trace has."""
    wrong = []
    for name, directory in volumes:
        files = f"{directory}/*.parquet"
        rows = database.execute(f"SELECT file_name, name, type FROM parquet_schema({literal(files)}) WHERE type IS NOT NULL").fetchall()
        types = {}
        for file, column, kind in rows:
            types.setdefault(file, {})[column] = kind
        for file, found in types.items():
            for column, kind in fleets.COLUMNS.items():
                if column not in found:
                    if column in fleets.REQUIRED:
                        wrong.append(f"volume {name}: {file} has no column {column}")
                elif found[column] not in (TEXT if kind == "STRING" else WHOLE):
                    wrong.append(f"volume {name}: column {column} of {file} is {found[column]}")
    if wrong:
        raise fleets.Refused("\n".join(wrong))


def open_fleet(database, fleet, volumes):
    """The view `trace`: all columns that queries use, null where no file has them."""
    check_columns(database, volumes)
    files = literal(f"{fleet}/volume=*/*.parquet")
    source = f"read_parquet({files}, hive_partitioning = true, union_by_name = true, hive_types = {{'volume': VARCHAR}})"
    found = {row[0] for row in database.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    columns = [f"{name}" if name in found else f"CAST(NULL AS {kind}) AS {name}" for name, kind in fleets.COLUMNS.items()]
    database.execute(f"CREATE TEMPORARY VIEW trace AS SELECT volume, {', '.join(columns)} FROM {source}")
    for file in ("duckdb.sql", "requests.sql"):
        for statement in fleets.statements(fleets.HERE / file):
            database.execute(statement)


class Engine:
    """DuckDB, with the directory that its tables are written to."""

    def __init__(self, database, to, at_a_time):
        self.database, self.to, self.at_a_time = database, to, at_a_time

    def keep_sql(self, name, sql):
        """Writes a query's table, and lets others read it by its name."""
        file = literal(f"{self.to}/{name}.parquet")
        self.database.execute(f"COPY ({sql}) TO {file} (FORMAT parquet)")
        self.database.execute(f"CREATE TEMPORARY VIEW {name} AS SELECT * FROM read_parquet({file})")

    def keep_rows(self, name, rows):
        kinds = {column: kind.replace("STRING", "VARCHAR") for column, kind in fleets.TABLES[name].items()}
        # Through a file: inserts row by row would take minutes where there are many volumes.
        with tempfile.NamedTemporaryFile("w", suffix=".json", dir=self.to) as file:
            for row in rows:
                file.write(json.dumps(row) + "\n")
            file.flush()
            source = f"read_json({literal(file.name)}, format = 'newline_delimited', columns = {kinds})"
            self.keep_sql(name, f"SELECT * FROM {source}")

    def dicts(self, name):
        found = self.database.execute(f"SELECT * FROM {name}")
        columns = [column[0] for column in found.description]
        return [dict(zip(columns, row)) for row in found.fetchall()]

    def keep_analyses(self, volumes, options):
        tables = {name: [] for name in fleets.TABLES}
        # Each waits for a process of its own: threads are enough.
        with concurrent.futures.ThreadPoolExecutor(self.at_a_time) as pool:
            for found in pool.map(lambda volume: fleets.analyze(*volume, options), volumes):
                for name, rows in found.items():
                    tables[name] += rows
        for name, rows in tables.items():
            self.keep_rows(name, rows)


def run(arguments):
    queries, volumes = fleets.wanted_queries(arguments), fleets.volumes(arguments.fleet)
    to = Path(arguments.to)
    try:
        # Of two at once one makes it.
        to.mkdir()
    except FileExistsError as error:
        raise fleets.Refused(f"{to}: is there already; name a directory that is not, or take this one away") from error
    spill = to / "spill"
    try:
        database = duckdb.connect()
        database.execute(f"SET temp_directory = {literal(spill)}")
        if arguments.engine_memory:
            database.execute(f"SET memory_limit = {literal(arguments.engine_memory)}")
        open_fleet(database, arguments.fleet, volumes)
        fleets.run(Engine(database, to, arguments.at_a_time), arguments, queries, volumes)
    except BaseException:
        # Tables of what could be read stay; where there are none the same command works once the fleet is mended.
        with contextlib.suppress(OSError):
            shutil.rmtree(spill, ignore_errors=True)
            to.rmdir()
        raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    fleets.add_arguments(parser)
    parser.add_argument("--at-a-time", type=int, default=os.cpu_count() or 1, metavar="N", help="volumes that are analysed at a time; all cores where left out")
    parser.add_argument("--engine-memory", metavar="SIZE", help="DuckDB's memory, such as 8GB; beyond it spills to the directory of the tables")
    fleets.main("run_duckdb.py", parser, run, duckdb.Error)


if __name__ == "__main__":
    main()
