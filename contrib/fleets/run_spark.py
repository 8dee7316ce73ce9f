#!/usr/bin/env python3
"""The tables of a fleet of traces, by Spark on as many machines as it has: docs/fleets.md.

    pip install pyspark==4.3.0                                    (and Java 17)
    contrib/fleets/run_spark.py fleet tables                      here, on all cores
    spark-submit --master ... --files forebay contrib/fleets/run_spark.py /shared/fleet /shared/tables --forebay ./forebay

The directory of the fleet must have the same path on all machines: `forebay analyze` opens it there.
Exit codes: 0 good, 2 it could not be done, or for some volumes not.
"""

import argparse
import sys

import fleet as fleets

try:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
except ImportError:
    sys.exit("run_spark.py: the Python module pyspark is missing: pip install pyspark==4.3.0")


def open_fleet(spark, fleet):
    """The view `trace`. Columns that a file lacks are null there; another type is an error that names the file."""
    schema = ", ".join(f"{name} {kind}" for name, kind in [*fleets.COLUMNS.items(), ("volume", "STRING")])
    trace = spark.read.schema(schema).option("basePath", fleet).parquet(f"{fleet}/volume=*")
    trace.createOrReplaceTempView("trace")
    for file in ("spark.sql", "requests.sql"):
        for statement in fleets.statements(fleets.HERE / file):
            spark.sql(statement)


def keep(spark, name, table, to):
    """Writes a table, and lets queries read it by its name."""
    table.write.parquet(f"{to}/{name}.parquet")
    spark.read.parquet(f"{to}/{name}.parquet").createOrReplaceTempView(name)


def dicts(spark, name):
    return [row.asDict() for row in spark.table(name).collect()]


def analyze_all(spark, volumes, options, to):
    """Every volume is a partition of its own, wherever there is room for it; the tables come from all of them."""
    spark.sparkContext.addPyFile(str(fleets.HERE / "fleet.py"))

    def of_partition(part):
        return [pair for volume in part for pair in fleets.analyze(*volume, options).items()]

    found = spark.sparkContext.parallelize(volumes, len(volumes)).mapPartitions(of_partition).cache()
    for name, columns in fleets.TABLES.items():
        in_order = list(columns)
        rows = found.filter(lambda pair, name=name: pair[0] == name).flatMap(
            lambda pair, in_order=in_order: [tuple(row.get(column) for column in in_order) for row in pair[1]]
        )
        schema = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
        keep(spark, name, spark.createDataFrame(rows, schema), to)
    found.unpersist()


def run(arguments):
    queries, volumes = fleets.wanted_queries(arguments), fleets.volumes(arguments.fleet)
    spark = SparkSession.builder.appName("forebay fleet").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    open_fleet(spark, arguments.fleet)
    for name, sql in queries:
        keep(spark, name, spark.sql(sql), arguments.to)
        if name == fleets.VOLUMES:
            read = {row["volume"]: row for row in dicts(spark, name)}
            fleets.check_volumes(volumes, read)
    bad = 0
    if not arguments.sql_alone:
        analyze_all(spark, volumes, fleets.analysis_options(arguments), arguments.to)
        bad = fleets.complain(dicts(spark, "left_out"))
        fleets.check_analyses(read, dicts(spark, "analyses"))
    for name, sql in fleets.wanted_sums(arguments):
        keep(spark, name, spark.sql(sql), arguments.to)
    if bad:
        raise fleets.Refused(f"{bad} of {len(volumes)} volumes were not analysed; the tables have the others")
    print(f"{len(volumes)} volumes, {sum(row['requests'] for row in read.values())} requests: {arguments.to}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    fleets.add_arguments(parser)
    arguments = parser.parse_args()
    try:
        run(arguments)
    except (fleets.Refused, OSError) as error:
        print(f"run_spark.py: {error}", file=sys.stderr)
        sys.exit(2)
    except (PySparkException, Py4JError) as error:
        print(f"run_spark.py: {fleets.about(error)}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
