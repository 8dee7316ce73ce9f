"""Files that the tests read, made once by `forebay` itself."""

import atexit
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile


@functools.cache
def folder() -> pathlib.Path:
    made = pathlib.Path(tempfile.mkdtemp(prefix="forebay-python."))
    atexit.register(shutil.rmtree, made)
    return made


def forebay(*words: object, status: int = 0) -> str:
    """Runs `forebay`, which must end with this status; what it prints."""
    done = subprocess.run([os.environ["FOREBAY_BIN"], *map(str, words)], capture_output=True, text=True, timeout=300)
    assert done.returncode == status, f"{words}: {done.returncode}: {done.stderr}"
    return done.stdout


@functools.cache
def capture(requests: int, *more: object) -> pathlib.Path:
    """A capture, as `forebay record` writes it."""
    path = folder() / f"{'-'.join(map(str, (requests, *more)))}.fbr"
    subprocess.run([os.environ["CAPTURE"], path, *map(str, (requests, *more))], check=True)
    return path


@functools.cache
def converted(path: pathlib.Path, extension: str) -> pathlib.Path:
    """What `forebay convert` makes of a trace."""
    to = folder() / f"{path.name}{extension}"
    forebay("convert", path, to)
    return to


@functools.cache
def run() -> tuple[pathlib.Path, pathlib.Path, pathlib.Path]:
    """The records, their Parquet and the result of a run of two jobs on a modelled drive."""
    records, parquet, result = (folder() / name for name in ("run.fbt", "run.parquet", "bench.json"))
    jobs = folder() / "jobs.fio"
    jobs.write_text(
        "[global]\nruntime=1s\ntime_based\n[mixed ü]\nrw=randrw\nrwmixread=70\niodepth=4\n[log]\nstonewall\nrw=write\nbs=16k\nfdatasync=8\n"
    )
    result.write_text(forebay("bench", jobs, "--target", "model:p4610", "--records", records, "--parquet", parquet, "--output", "json"))
    return records, parquet, result


@functools.cache
def result(name: str, *words: object) -> pathlib.Path:
    path = folder() / name
    path.write_text(forebay(*words, "--output", "json"))
    json.loads(path.read_text())
    return path


@functools.cache
def converted_generator(text: str) -> pathlib.Path:
    to = folder() / "generated.parquet"
    forebay("convert", text, to)
    return to
