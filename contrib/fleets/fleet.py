"""What both engines share: the volumes of a fleet, the SQL, and `forebay analyze` of one volume.

Only the standard library is used, so that this file alone can be sent to the machines of a cluster.
"""

import json
import os
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Columns that the queries use, with their types. The first four must be there; the others are null where a file lacks them.
COLUMNS = {
    "issued_ns": "BIGINT",
    "op": "STRING",
    "offset_bytes": "BIGINT",
    "size_bytes": "BIGINT",
    "latency_ns": "BIGINT",
    "queued_ns": "BIGINT",
    "lifetime": "STRING",
    "flags": "BIGINT",
    "depth": "BIGINT",
    "io_class": "BIGINT",
    "process": "STRING",
    "path": "STRING",
}
REQUIRED = ("issued_ns", "op", "offset_bytes", "size_bytes")

# The first query: what it finds decides whether the others mean anything.
VOLUMES = "volumes"

# What requests are grouped by in by_writer.sql: the table's name, its column, the value, and what stands where there is none.
WRITERS = {
    "directories": ("directory", "nullif(regexp_extract(path, '(?s)^(.*)/[^/]*$', 1), '')", "'not known'"),
    "extensions": ("extension", "nullif(regexp_extract(path, '(?s)([.][^./]*)$', 1), '')", "'not known'"),
    "io_classes": ("io_class", "'class ' || CAST(io_class AS VARCHAR(10))", "'none'"),
    "processes": ("process", "nullif(process, '')", "'not known'"),
}

# What `forebay analyze` gives of a volume, as tables: their columns in the words of its JSON.
SPREAD = ("mean", "p50", "p90", "p99", "p99_9", "max")
TABLES = {
    "analyses": {
        "volume": "STRING",
        "requests": "BIGINT",
        "faults": "BIGINT",
        "exact": "BOOLEAN",
        "one_block_in": "BIGINT",
        "duration_ns": "BIGINT",
        "footprint_bytes": "BIGINT",
        "written_footprint_bytes": "BIGINT",
        "block_accesses": "BIGINT",
        "beta": "DOUBLE",
        "alpha_fast": "DOUBLE",
        "fast_bytes": "BIGINT",
        "read_sequential": "DOUBLE",
        "read_sequential_bytes": "DOUBLE",
        "write_sequential": "DOUBLE",
        "write_sequential_bytes": "DOUBLE",
        "depth_mean": "DOUBLE",
        "depth_mean_busy": "DOUBLE",
        "depth_p50": "BIGINT",
        "depth_p99": "BIGINT",
        **{f"overwrite_ns_{name}": "DOUBLE" if name == "mean" else "BIGINT" for name in SPREAD},
        **{f"reread_ns_{name}": "DOUBLE" if name == "mean" else "BIGINT" for name in SPREAD},
        "back_in_time": "BIGINT",
    },
    "curves": {
        "volume": "STRING",
        "size_bytes": "BIGINT",
        "percent": "BIGINT",
        "miss_ratio": "DOUBLE",
        "read_miss_ratio": "DOUBLE",
        "alpha": "DOUBLE",
        "miss_ratio_error": "DOUBLE",
        "read_miss_ratio_error": "DOUBLE",
        "alpha_error": "DOUBLE",
    },
    "classes": {
        "volume": "STRING",
        "name": "STRING",
        "letter": "STRING",
        "occupancy_bytes": "BIGINT",
        "written_bytes": "BIGINT",
        "alpha": "DOUBLE",
        "beta": "DOUBLE",
        "writes": "BIGINT",
        "reads": "BIGINT",
        "read_bytes": "BIGINT",
        "discarded_bytes": "BIGINT",
    },
    "left_out": {"volume": "STRING", "why": "STRING"},
}


class Refused(Exception):
    """What cannot be analysed; its text says what is wrong with which volume."""


def volumes(fleet):
    """The volumes of a directory `volume=NAME/*.parquet`, as (name, directory), by name."""
    fleet = Path(fleet)
    if not fleet.is_dir():
        raise Refused(f"{fleet}: no such directory")
    found = []
    for directory in fleet.iterdir():
        if directory.name.startswith("volume=") and directory.is_dir():
            coded = directory.name.removeprefix("volume=")
            name = "(no volume)" if coded == "__HIVE_DEFAULT_PARTITION__" else urllib.parse.unquote(coded)
            if not any(file.suffix == ".parquet" for file in directory.iterdir()):
                raise Refused(f"volume {name}: {directory} holds no file that ends in .parquet")
            found.append((name, str(directory)))
    if not found:
        raise Refused(f"{fleet} holds no directory volume=NAME; forebay convert TRACE {fleet} --to-format parquet-by-volume makes them")
    return sorted(found)


def queries(folder):
    """(name, SQL) of the files of a folder; the query for the volumes first."""
    found = {file.stem: statements(file)[0] for file in (HERE / folder).glob("*.sql")}
    if folder == "queries":
        (template,) = statements(HERE / "by_writer.sql")
        found |= {
            table: template.replace("{name}", name).replace("{value}", value).replace("{none}", none)
            for table, (name, value, none) in WRITERS.items()
        }
    return sorted(found.items(), key=lambda pair: (pair[0] != VOLUMES, pair[0]))


def statements(file):
    """The statements of a file, without comments."""
    text = re.sub(r"(?m)^\s*--.*$", "", Path(file).read_text())
    return [statement.strip() for statement in text.split(";") if statement.strip()]


def check_volumes(wanted, found):
    """Holds what the query for the volumes found against the directory: dicts by volume."""
    wrong = []
    for name, directory in wanted:
        row = found.get(name)
        if row is None:
            wrong.append(f"volume {name}: {directory} holds no rows")
            continue
        lacking = [column for column in REQUIRED if row[f"with_{column}"] == 0]
        if lacking:
            wrong.append(f"volume {name}: there is no column {', '.join(lacking)} with anything in it")
    if wrong:
        raise Refused("\n".join(wrong))


def analyze(name, directory, options):
    """Runs `forebay analyze` on one volume: {table: rows}. What it refuses is a row of `left_out`."""
    command = [options["forebay"], "analyze", directory, "--threads", "1", "--output", "json", *options["arguments"]]
    left_out = lambda why: {"left_out": [{"volume": name, "why": why}]}
    try:
        run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    except OSError as error:
        return left_out(f"{options['forebay']} cannot be run: {error.strerror}")
    if run.returncode != 0:
        why = run.stderr.strip().splitlines()
        return left_out(why[-1] if why else f"{command[0]} analyze ended with {run.returncode}")
    try:
        found = json.loads(run.stdout)["traces"]
        (trace,) = found
        return flattened(name, trace)
    except (ValueError, KeyError, TypeError) as error:
        return left_out(f"the output of {command[0]} analyze is none that is known here: {error!r}")


def flattened(name, trace):
    """The rows that an analysis in JSON becomes."""
    report = trace["report"]
    row = {
        "volume": name,
        "requests": trace["requests"],
        "faults": trace["faults"]["count"],
        "exact": trace["exact"],
    }
    for key in TABLES["analyses"]:
        if key in report:
            row[key] = report[key]
    for direction in ("read", "write"):
        row[f"{direction}_sequential"] = report[f"{direction}s"]["sequential"]
        row[f"{direction}_sequential_bytes"] = report[f"{direction}s"]["sequential_bytes"]
    of_all = report["depths"][0] if report["depths"] else {}
    for key in ("mean", "mean_busy", "p50", "p99"):
        row[f"depth_{key}"] = of_all.get(key)
    for spread in ("overwrite_ns", "reread_ns"):
        for key in SPREAD:
            row[f"{spread}_{key}"] = (report[spread] or {}).get(key)
    rows_of = lambda table, found: [{column: one.get(column) for column in TABLES[table]} | {"volume": name} for one in found]
    return {
        "analyses": [row],
        "curves": rows_of("curves", report["curve"]),
        "classes": rows_of("classes", report["rows"]),
    }


def check_analyses(found, analyses):
    """Both ways of reading a volume must have met the same requests: else one of them has left something out."""
    wrong = []
    for row in analyses:
        other = found.get(row["volume"])
        if other is None:
            continue
        read = other["requests"] + other["absurd"]
        if (row["requests"], row["faults"]) != (read, other["faults"]):
            wrong.append(
                f"volume {row['volume']}: SQL has {read} requests and {other['faults']} faults, "
                f"forebay analyze {row['requests']} and {row['faults']}"
            )
    if wrong:
        raise Refused("\n".join(wrong))


def add_arguments(parser):
    """Options that both engines have."""
    parser.add_argument("fleet", help="a directory volume=NAME/*.parquet, as forebay convert --to-format parquet-by-volume writes it")
    parser.add_argument("to", help="the directory for the tables; it must not exist")
    parser.add_argument("--forebay", default=os.environ.get("FOREBAY_BIN", "forebay"), help="the program that analyses a volume")
    parser.add_argument("--sql-alone", action="store_true", help="no miss ratios, alpha and classes: volumes are not analysed")
    parser.add_argument("--queries", metavar="NAME,...", help="only these of queries/ (volumes, operations and blocks in any case)")
    parser.add_argument("--sample", type=int, metavar="N", help="forebay analyze --sample")
    parser.add_argument("--memory", metavar="SIZE", help="forebay analyze --memory, for each volume that is analysed at a time")
    parser.add_argument("--rules", metavar="RULES", help="forebay analyze --rules")


def analysis_options(arguments):
    """What `analyze` needs of them."""
    given = {"--sample": arguments.sample, "--memory": arguments.memory, "--rules": arguments.rules}
    return {
        "forebay": arguments.forebay,
        "arguments": [part for option, value in given.items() if value is not None for part in (option, str(value))],
    }


def wanted_queries(arguments):
    """The queries that were asked for, as (name, SQL)."""
    known = queries("queries")
    if arguments.queries is None:
        return known
    # What checks and sums rest on.
    asked = {VOLUMES, "operations", "blocks", *arguments.queries.split(",")}
    unknown = sorted(asked - {name for name, _ in known})
    if unknown:
        raise Refused(f"--queries {','.join(unknown)}: there are {', '.join(name for name, _ in known)}")
    return [(name, sql) for name, sql in known if name in asked]


def wanted_sums(arguments):
    """The queries over the tables of the others, as (name, SQL): without analyses only what needs none."""
    sums = queries("sums")
    return [(name, sql) for name, sql in sums if name == "fleet_operations"] if arguments.sql_alone else sums


def run(engine, arguments, queries_wanted, found):
    """Carries the queries, the analyses and the sums out. `engine` has keep_sql(name, sql), dicts(name) and keep_analyses(volumes, options)."""
    for name, sql in queries_wanted:
        engine.keep_sql(name, sql)
        if name == VOLUMES:
            read = {row["volume"]: row for row in engine.dicts(name)}
            check_volumes(found, read)
    bad = 0
    if not arguments.sql_alone:
        engine.keep_analyses(found, analysis_options(arguments))
        bad = complain(engine.dicts("left_out"))
        check_analyses(read, engine.dicts("analyses"))
    for name, sql in wanted_sums(arguments):
        engine.keep_sql(name, sql)
    if bad:
        raise Refused(f"{bad} of {len(found)} volumes were not analysed; the tables have the others")
    print(f"{len(found)} volumes, {sum(row['requests'] for row in read.values())} requests: {arguments.to}")


def main(name, parser, run_it, errors):
    """Reads the command line and runs it; what goes wrong is one line, and exit code 2."""
    arguments = parser.parse_args()
    try:
        run_it(arguments)
    except (Refused, OSError) as error:
        sys.exit(ended(name, error))
    except errors as error:
        sys.exit(ended(name, about(error)))


def ended(name, what):
    print(f"{name}: {what}", file=sys.stderr)
    return 2


def about(error):
    """What an engine says, in one line, with the volume before it: engines name files at best, and Spark far below."""
    lines = str(error).strip().splitlines() or [repr(error)]
    for line in lines:
        named = re.search(r"volume=([^/\s'\"]+)/", line)
        if named:
            return f"volume {urllib.parse.unquote(named[1])}: {line.strip()}"
    return lines[0]


def complain(left_out):
    """Names the volumes that were left out; how many there are."""
    for row in left_out:
        print(f"left out: volume {row['volume']}: {row['why']}", file=sys.stderr)
    return len(left_out)
