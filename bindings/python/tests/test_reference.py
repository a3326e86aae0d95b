"""The page `docs/reference/python.md` has the text of the docstrings; `UPDATE_EXPECT=1` writes it anew."""

import dataclasses
import inspect
import os
import re
from pathlib import Path

import falaj
from falaj import queueing

PAGE = Path(__file__).parents[3] / "docs/reference/python.md"

HEAD = """# The package for Python

[How to use it](../how-to/python.md). This page is generated from the docstrings; a test fails if it is out of date.

Times are nanoseconds of simulated time, rates bits per second, lengths bytes as the link accounts them, unless a name or a line says otherwise.
"""

SECTIONS = ("Args:", "Returns:", "Raises:", "Attributes:")


def signature(name, what):
    try:
        text = str(inspect.signature(what))
    except (TypeError, ValueError):
        text = getattr(what, "__text_signature__", None) or ""
    text = re.sub(r"\((self|cls)(, )?", "(", text).replace("$", "")
    # Leaves the names that users write.
    text = re.sub(r"\(/(, )?", "(", text)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    for module in ("typing.", "falaj.scenario.", "falaj.results.", "falaj.plotting.", "falaj.planning.", "falaj.table.", "falaj._falaj.", "builtins."):
        text = text.replace(module, "")
    return f"{name}{text}"


def prose(doc):
    """A docstring as Markdown: its sections are lists."""
    lines, inside = [], False
    for line in inspect.cleandoc(doc or "").splitlines():
        if line in SECTIONS:
            inside = True
            lines += [f"**{line[:-1]}**", ""]
        elif inside and re.match(r"    [\w`.*]+: ", line):
            name, text = line.strip().split(": ", 1)
            lines.append(f"- `{name}`: {text}")
        elif inside and line.startswith("    "):
            lines.append(f"  {line.strip()}" if lines[-1].startswith(("- ", "  ")) else line.strip())
        else:
            inside = inside and line == ""
            lines.append(line)
    return "\n".join(lines)


def members(cls):
    # The order of native classes' getters varies.
    getters = {name: member for name, member in vars(cls).items() if inspect.isgetsetdescriptor(member)}
    others = [(name, member) for name, member in vars(cls).items() if name not in getters]
    for name, member in others + sorted(getters.items()):
        if name.startswith("_") and not (name == "__getitem__" and member.__doc__):
            continue
        yield name, member


def told(name, what):
    out = [f"## `{name}`", ""]
    if inspect.isclass(what):
        out += [prose(what.__doc__), ""]
        own = vars(what).get("__init__")
        if dataclasses.is_dataclass(what) or getattr(own, "__doc__", None) or getattr(what, "__text_signature__", None):
            out += ["```python", signature(name, what), "```", ""]
        for member, value in members(what):
            inner = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            if not inspect.getdoc(inner) or isinstance(value, str):
                continue
            if callable(inner):
                out += [f"### `{name}.{member}`", "", "```python", signature(member, getattr(what, member)), "```", ""]
            elif isinstance(value, property) or inspect.isgetsetdescriptor(value):
                out += [f"### `{name}.{member}`", ""]
            else:
                continue
            out += [prose(inner.__doc__), ""]
    else:
        out += ["```python", signature(name, what), "```", "", prose(what.__doc__), ""]
    return "\n".join(out)


def page():
    names = [name for name in falaj.__all__ if name not in ("__version__", "queueing")]
    parts = [HEAD] + [told(name, getattr(falaj, name)) for name in names]
    parts += [told(f"queueing.{name}", getattr(queueing, name)) for name in queueing.__all__]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def test_everything_is_documented():
    for module in (falaj, queueing):
        for name in module.__all__:
            what = getattr(module, name)
            if isinstance(what, str) or inspect.ismodule(what):
                continue
            assert inspect.getdoc(what), name
            if inspect.isclass(what):
                for member, value in members(what):
                    if callable(value) or isinstance(value, property):
                        assert inspect.getdoc(value), f"{name}.{member}"


def test_the_page_is_what_the_docstrings_say():
    if os.environ.get("UPDATE_EXPECT"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "out of date: UPDATE_EXPECT=1 make python"
