"""Check 2: the name of a discipline appears only in its own file, in the registry, and in files that `.ci/house.toml` allows."""

import ast
import re
from fnmatch import fnmatch

from .tree import Finding

# The definition of a discipline, with its name.
DEFINED = re.compile(r'\b(?:Entry|Manifest)\s*\{[^{}]*?\bkind:\s*"([^"]+)"')
SCRIPT_STRING = re.compile(r"""//[^\n]*|/\*.*?\*/|"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`""", re.S)


def kinds(tree, data):
    """The names of all disciplines, each with the file or folder in which it may appear."""
    found = {}
    for file in tree.below(data["home"], ".rs"):
        for kind in DEFINED.findall(tree.text(file)):
            found[kind] = file.removesuffix("mod.rs")
    return found


def strings(tree, data):
    """All string literals outside of tests, as (file, line, text)."""
    for files in tree.sources.values():
        for file, source in files.items():
            if not source.test_only:
                for line, text in source.strings:
                    yield file, line, text
    for folder in data["typescript"]:
        for file in tree.below(folder, ".ts"):
            if file.endswith(".test.ts"):
                continue
            text = tree.text(file)
            for found in SCRIPT_STRING.finditer(text):
                literal = next((g for g in found.groups() if g is not None), None)
                if literal is not None:
                    yield file, text.count("\n", 0, found.start()) + 1, literal
    for folder in data["python"]:
        for file in tree.below(folder, ".py"):
            for node in ast.walk(ast.parse(tree.text(file))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield file, node.lineno, node.value


def check(tree, data):
    """Finds discipline names in files that may not contain them, and permissions that no string needs or that have no reason."""
    names = kinds(tree, data["disciplines"])
    if not names:
        wrong = f"no discipline was found below {data['disciplines']['home']}"
        return [Finding(".ci/house.toml", 1, wrong, "mend `home`, or DEFINED in .ci/checks/disciplines.py")], 1
    excuses = data["disciplines"].get("allow", [])
    used, findings = set(), []
    for file, line, text in strings(tree, data):
        if text not in names or file.startswith(names[text]) or file == data["disciplines"]["registry"]:
            continue
        excused = [
            n
            for n, excuse in enumerate(excuses)
            if fnmatch(file, excuse["file"]) and text in excuse.get("names", [text])
        ]
        used.update(excused)
        if not excused:
            findings.append(
                Finding(
                    file,
                    line,
                    f'the discipline "{text}" is named outside of {names[text]}',
                    f"ask the registry or the manifest for the fact instead, or its file for its name",
                )
            )
    for n, excuse in enumerate(excuses):
        if not excuse.get("why", "").strip():
            findings.append(Finding(".ci/house.toml", 1, f"{excuse['file']} is allowed without a `why`", "give the reason"))
        if n not in used:
            wrong = f"{excuse['file']} is allowed to name disciplines and names none"
            findings.append(Finding(".ci/house.toml", 1, wrong, "remove it from [[disciplines.allow]]"))
    return sorted(findings), len(findings)
