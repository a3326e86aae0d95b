"""Check 4: a type's name says what it is without its module, and a trait is short."""

from collections import defaultdict

from .tree import Finding

FILES = 3
PERCENT = 2
METHODS = 14


def definitions(tree):
    """The places where each type name is defined: `{name: {file: line}}`; without tests and associated types."""
    found = defaultdict(dict)
    for files in tree.sources.values():
        for file, source in files.items():
            if source.test_only:
                continue
            for item in source.items:
                if item.kind in ("struct", "enum", "union", "trait") or item.kind == "type" and not item.inside:
                    found[item.name].setdefault(file, item.line)
    return found


def check_names(tree, data):
    """Finds names that are defined in three or more files, if more than 2 % of all names are."""
    found = definitions(tree)
    shared = {n: at for n, at in found.items() if len(at) >= FILES and n not in data["types"]["idioms"]}
    permitted = len(found) * PERCENT // 100
    if len(shared) <= permitted:
        return [], 0
    findings = []
    for name, at in sorted(shared.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        file = min(at)
        findings.append(
            Finding(
                file,
                at[file],
                f"`{name}` is defined in {len(at)} files ({', '.join(sorted(at)[1:3])}{', …' if len(at) > 3 else ''}), "
                f"one of {len(shared)} such names; at most {permitted} of {len(found)} names are allowed",
                "give each a name that says what it is",
            )
        )
    return findings, len(shared)


def check_traits(tree, data):
    """Finds traits of more than 14 methods."""
    findings = [
        Finding(
            file,
            item.line,
            f"the trait `{item.name}` has {item.methods} methods; {METHODS} are allowed",
            "move methods that few types implement into a trait of their own",
        )
        for files in tree.sources.values()
        for file, source in files.items()
        if not source.test_only
        for item in source.items
        if item.kind == "trait" and item.methods > METHODS
    ]
    return findings, len(findings)
