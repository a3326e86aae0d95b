"""Check 5: lines of Rust sources are at most 100 columns long, in code and in comments."""

import re

from . import rust
from .tree import Finding

COLUMNS = 100
TABLE = re.compile(r"\s*//[/!]\s*\|")
URL = re.compile(r"\s*//[/!]?\s*(?:\[[^]]*\]:\s*)?<?https?://\S+$")
# Code allowed before the string that makes a line long: any code without a comma, such as the name
# of a field or an opening bracket.
LEAD = re.compile(r"""[^",]*""")
# Code allowed after that string: nothing that could stand on a line of its own.
CLOSING = re.compile(r"[\])},;?]*(?:\.(?:into|to_owned|to_string|as_str)\(\)[\])},;?]*)?\s*(?:\{|=>\s*\{?)?")


def too_long(text, literals):
    """The numbers of lines of `text` that are too long."""
    found, start = [], 0
    for number, line in enumerate(text.split("\n"), 1):
        end = start + len(line)
        if len(line) > COLUMNS and not excepted(line, start, end, literals):
            found.append(number)
        start = end + 1
    return found


def excepted(line, start, end, literals):
    """Returns true if the line may be long: see the help of `.ci/house`."""
    if TABLE.match(line) or URL.match(line):
        return True
    string = next((s for s in reversed(literals) if s.start < end and s.end > start), None)
    if string is None or not CLOSING.fullmatch(line[max(string.end - start, 0) :] if string.end <= end else ""):
        return False
    if string.start < start or string.end > end:
        # A string of several lines. A line that ends in a backslash could be broken earlier.
        backslashes = len(line) - len(line.rstrip("\\"))
        return string.raw or backslashes % 2 == 0 or line.endswith("\\n\\")
    indentation = len(line) - len(line.lstrip())
    alone = indentation + (string.end - string.start) + len(",")
    return alone > COLUMNS and LEAD.fullmatch(line[: string.start - start]) is not None


def check(tree, data):
    """Finds the lines that are too long."""
    findings = []
    for file in tree.files:
        if not file.endswith(".rs"):
            continue
        text = tree.text(file)
        if not any(len(line) > COLUMNS for line in text.split("\n")):
            continue
        _, literals = rust.mask(text)
        lines = text.split("\n")
        findings += [
            Finding(file, number, f"{len(lines[number - 1])} columns", f"wrap the line at {COLUMNS}")
            for number in too_long(text, literals)
        ]
    return findings, len(findings)
