"""Check 1, between crates: a crate depends only on the crates that `[crates]` in .ci/house.toml puts below it."""

import tomllib

from .tree import Finding


def dependencies(manifest, names):
    """The crates of the workspace that a Cargo.toml depends on; dev-dependencies do not count."""
    tables = [manifest, *manifest.get("target", {}).values()]
    return sorted(
        {
            name
            for table in tables
            for kind in ("dependencies", "build-dependencies")
            for name in table.get(kind, {})
            if name in names
        }
    )


def below(allowed, name):
    """All crates that the crate `name` may depend on, directly or through other crates."""
    found, waiting = set(), list(allowed[name])
    while waiting:
        lower = waiting.pop()
        if lower not in found:
            found.add(lower)
            waiting += allowed.get(lower, [])
    return found


def check(tree, data):
    """Finds dependencies on a crate that is not below the dependent crate, crates without a place in the order, and places without a crate."""
    allowed = data["crates"]
    manifests = {}
    for crate in tree.crates:
        file = f"{crate}/Cargo.toml"
        manifest = tomllib.loads(tree.text(file))
        manifests[manifest["package"]["name"]] = (file, manifest)
    findings = []
    for name, (file, manifest) in manifests.items():
        if name not in allowed:
            findings.append(
                Finding(file, 1, f"{name} has no place in the order of crates", "add it to [crates] of .ci/house.toml")
            )
            continue
        permitted = below(allowed, name)
        for lower in dependencies(manifest, set(manifests)):
            if lower not in permitted:
                findings.append(
                    Finding(
                        file,
                        _line(tree.text(file), lower),
                        f"{name} depends on {lower}, which is not below it",
                        "move what both need into a crate below both (docs/architecture.md)",
                    )
                )
    for name in allowed:
        if manifests and name not in manifests:
            findings.append(Finding(".ci/house.toml", 1, f"there is no crate {name}", "remove it from [crates]"))
    return findings, len(findings)


def _line(text, name):
    return next((n for n, line in enumerate(text.split("\n"), 1) if line.startswith(name)), 1)
