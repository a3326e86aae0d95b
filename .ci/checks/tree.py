"""The files of a source tree, and a finding in one of them."""

import os
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import rust

LEFT_OUT = {".git", "target", "node_modules", "__pycache__"}


@dataclass(frozen=True, order=True)
class Finding:
    """One line of output: where, what is wrong, what to do."""

    file: str
    line: int
    wrong: str
    cure: str

    def __str__(self):
        return f"{self.file}:{self.line}: {self.wrong}; {self.cure}"


class Tree:
    """The files below `root` that Git knows or would add, or all files where there is no repository."""

    def __init__(self, root):
        self.root = Path(root)

    @cached_property
    def files(self):
        """Paths relative to the root, sorted."""
        command = ["git", "-C", str(self.root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        if (self.root / ".git").exists():
            listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
            return sorted({f for f in listed if f and (self.root / f).is_file()})
        found = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [f for f in folders if f not in LEFT_OUT]
            found += [Path(folder, name).relative_to(self.root).as_posix() for name in names]
        return sorted(found)

    def text(self, file):
        """The content of `file`."""
        return (self.root / file).read_text(encoding="utf-8")

    def below(self, folder, ending):
        """Files below `folder` whose name ends in `ending`."""
        return [f for f in self.files if f.startswith(folder + "/") and f.endswith(ending)]

    @cached_property
    def crates(self):
        """Folders below `crates` and `bindings` that have a Cargo.toml."""
        return sorted(
            f.removesuffix("/Cargo.toml")
            for f in self.files
            if f.endswith("/Cargo.toml") and (f.startswith(("crates/", "bindings/")))
        )

    @cached_property
    def sources(self):
        """The Rust sources of each crate, as `{crate's folder: {file: rust.Source}}`; without tests and examples."""
        every = {crate: self.below(f"{crate}/src", ".rs") for crate in self.crates}
        read = dict(rust.read(self.root, [file for files in every.values() for file in files]))
        sources = {crate: {file: read[file] for file in files} for crate, files in every.items()}
        for crate, files in sources.items():
            rust.leave_out_test_modules(crate, files)
        return sources
