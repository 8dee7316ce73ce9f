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


class Engine:
    """Spark, with the directory that its tables are written to."""

    def __init__(self, spark, to):
        self.spark, self.to = spark, to

    def keep(self, name, table):
        """Writes a table, and lets queries read it by its name."""
        table.write.parquet(f"{self.to}/{name}.parquet")
        self.spark.read.parquet(f"{self.to}/{name}.parquet").createOrReplaceTempView(name)

    def keep_sql(self, name, sql):
        self.keep(name, self.spark.sql(sql))

    def dicts(self, name):
        return [row.asDict() for row in self.spark.table(name).collect()]

    def keep_analyses(self, volumes, options):
        """Every volume is a partition of its own, wherever there is room for it; the tables come from all of them."""
        self.spark.sparkContext.addPyFile(str(fleets.HERE / "fleet.py"))

        def of_partition(part):
            return [pair for volume in part for pair in fleets.analyze(*volume, options).items()]

        found = self.spark.sparkContext.parallelize(volumes, len(volumes)).mapPartitions(of_partition).cache()
        for name, columns in fleets.TABLES.items():
            in_order = list(columns)
            rows = found.filter(lambda pair, name=name: pair[0] == name).flatMap(
                lambda pair, in_order=in_order: [tuple(row.get(column) for column in in_order) for row in pair[1]]
            )
            schema = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
            self.keep(name, self.spark.createDataFrame(rows, schema))
        found.unpersist()


def run(arguments):
    queries, volumes = fleets.wanted_queries(arguments), fleets.volumes(arguments.fleet)
    spark = SparkSession.builder.appName("forebay fleet").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    open_fleet(spark, arguments.fleet)
    fleets.run(Engine(spark, arguments.to), arguments, queries, volumes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    fleets.add_arguments(parser)
    fleets.main("run_spark.py", parser, run, (PySparkException, Py4JError))


if __name__ == "__main__":
    main()
