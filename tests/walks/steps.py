"""The steps of a walk, taken from the documents.

A fenced block of a document belongs to a walk where a comment stands before it, which nobody sees who reads the page:

    <!-- walk database 3: run -->
    ```sh
    forebay create
    ```

A block may belong to several walks: `<!-- walk database 1, files 2: run -->`. Numbers begin with 1 and leave nothing out; they may be
spread over several documents. What a step may be:

    run          commands for the shell of the machine that Forebay runs on
    serve        the same, and it stays in a terminal of its own
    stop         no block: Ctrl-C in that terminal, and a good end
    file PATH    the block is the content of this file
    reboot       commands after which that machine boots again
    machine      a command that runs a virtual machine at this terminal; somebody logs in there
    inside       commands for the shell in the virtual machine
    inside reboot, inside off    the same, and it boots again, or is off
    says         the text that the step before has printed: each line in this order, others may be between. Space is space, however
                 much; `...` stands for anything
    says about   the same, with any figure where there is one, and any unit of bytes
"""
import collections
import pathlib
import re

Step = collections.namedtuple("Step", "number verb argument block place")
MARK = re.compile(r"^\s*<!-- walk (?P<names>[a-z0-9, ]+): (?P<verb>[a-z ]+?)(?: (?P<path>/\S+))? -->\s*$")
VERBS = {"run", "serve", "stop", "file", "reboot", "machine", "inside", "inside reboot", "inside off", "says", "says about"}
ALONE = {"stop"}


class Wrong(Exception):
    """A document that cannot be read, or a step that did not do what its document says."""


def fenced(lines, at, place):
    """The content of the block that begins at line `at`, without its indentation."""
    while at < len(lines) and not lines[at].strip():
        at += 1
    opening = re.match(r"^(\s*)```", lines[at]) if at < len(lines) else None
    if not opening:
        raise Wrong(f"{place}: no fenced block follows")
    block = []
    for line in lines[at + 1:]:
        if line.strip() == "```":
            return "".join(f"{line[len(opening[1]):]}\n" for line in block)
        block.append(line)
    raise Wrong(f"{place}: the block does not end")


def read(top, wanted):
    """The steps of the walk `wanted`, in order."""
    steps = {}
    for path in [top / "README.md", *sorted((top / "docs").glob("*.md"))]:
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
        for at, line in enumerate(lines):
            place = f"{path.relative_to(top)}:{at + 1}"
            mark = MARK.match(line)
            if not mark:
                if "<!-- walk" in line:
                    raise Wrong(f"{place}: not a mark of a walk: {line.strip()}")
                continue
            verb = mark["verb"]
            if verb not in VERBS or (verb == "file") != bool(mark["path"]):
                raise Wrong(f"{place}: no such step: {line.strip()}")
            block = "" if verb in ALONE else fenced(lines, at + 1, place)
            for name in mark["names"].split(","):
                walk, number = name.split()
                if walk != wanted:
                    continue
                if int(number) in steps:
                    raise Wrong(f"{place}: step {number} is at {steps[int(number)].place}, too")
                steps[int(number)] = Step(int(number), verb, mark["path"], block, place)
    if not steps:
        raise Wrong(f"no document has a walk {wanted}")
    for number in range(1, max(steps) + 1):
        if number not in steps:
            raise Wrong(f"the walk {wanted} has no step {number}")
    return [steps[number] for number in sorted(steps)]


def figure(word):
    """A pattern: for a number any number, or none; for a unit any unit."""
    if re.fullmatch(r"[\d.]+|-", word):
        return r"(?:[\d.]+|-)"
    if re.fullmatch(r"B|[KMGT]iB", word):
        return r"(?:B|[KMGT]iB)"
    return re.sub(r"\d+(\\\.\d+)?", lambda _: r"\d+(?:\.\d+)?", re.escape(word))


def missing(expected, said, about):
    """The first line of `expected` that does not follow in `said`, or None."""
    said = " ".join(said.split())
    at = 0
    for line in expected.splitlines():
        pattern = " ".join(figure(word) if about else re.escape(word).replace(re.escape("..."), ".*?") for word in line.split())
        found = re.compile(pattern).search(said, at)
        if not found:
            return line
        at = found.end()
    return None
