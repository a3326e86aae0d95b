"""Small trees on which each check must find what is wrong, and nothing else."""

import sys
import tempfile
from pathlib import Path

from .tree import Tree

DATA = {
    "python": ["py/pkg"],
    "typescript": ["page/src"],
    "crates": {"low": [], "high": ["low"]},
    "types": {"idioms": ["Args"]},
    "disciplines": {"home": "crates/low/src", "registry": "crates/low/src/registry.rs"},
}
LOW = {"crates/low/Cargo.toml": '[package]\nname = "low"\n', "crates/low/src/lib.rs": ""}
HIGH = {
    "crates/high/Cargo.toml": '[package]\nname = "high"\n[dependencies]\nlow = { workspace = true }\n',
    "crates/high/src/lib.rs": "",
}
DRR = {"crates/low/src/drr.rs": 'const M: Manifest = Manifest { doc: "d", kind: "drr" };\nconst S: &str = "drr";\n'}
# Four files that import each other in a ring, each by another form of path.
RING = {
    "crates/low/src/a.rs": "use crate::b::B;\npub struct A;",
    "crates/low/src/b.rs": "use super::{c::{self, C}, d as other};\npub struct B;",
    "crates/low/src/c.rs": "pub struct C;\npub fn f() -> u8 { crate::d::g() }",
    "crates/low/src/d.rs": "use super::a;\npub fn g() -> u8 { a::A; 0 }",
}
WIDE = "x" * 120
LONG = " " * 60


def crate(**files):
    """A crate `low` of these files; `__` in a name stands for `/`."""
    return LOW | {f"crates/low/src/{name.replace('__', '/')}.rs": text for name, text in files.items()}


def allowing(*excuses):
    """The data, with these permissions for names of disciplines."""
    return DATA | {"disciplines": DATA["disciplines"] | {"allow": list(excuses)}}


def only(files, **more):
    """The tree of `files`, with the files of `more` in addition, or in place of those of the same name."""
    return LOW | files | {f"crates/low/src/{name}.rs": text for name, text in more.items()}


# (check, what the tree shows, files, number of findings, data if it is not DATA)
CASES = [
    ("circles", "four files in a ring", LOW | RING, 1),
    ("circles", "three files in a ring", 
     only(RING, b="use super::c::C; pub struct B;", c="pub struct C; fn f() { crate::a::A; }"), 0),
    ("circles", "a ring that is closed by code for tests", only(RING, d="#[cfg(test)]\nmod tests { use crate::a::A; }"), 0),
    ("circles", "the same, where more than tests sees it",
     only(RING, d='#[cfg(any(test, feature = "f"))]\nuse crate::a::A;\npub fn g() {}'), 1),
    ("circles", "a ring that is closed by a comment and a string", only(RING, d='// crate::a::A\nconst S: &str = "crate::a::A";'), 0),
    ("circles", "a ring through a re-export in the crate's root",
     only(RING, lib="pub use a::A;", d="use crate::A;\npub fn g() {}"), 1),
    ("circles", "a ring through a glob of the crate's root",
     only(RING, lib="pub(crate) use a::A;", d="use super::*;\nfn g() -> A { A }"), 1),
    ("circles", "a glob of which nothing is used", only(RING, lib="pub(crate) use a::A;", d="use super::*;"), 0),
    ("circles", "files and the module file above them",
     crate(
         m__mod="pub mod a; pub mod b; pub mod c; use a::A; use b::B; use c::C; pub struct M;",
         m__a="use super::M; pub struct A;", m__b="use super::M; use super::a::A; pub struct B;",
         m__c="use super::M; use super::b::B; pub struct C;",
     ), 0),
    ("circles", "a module that exists for tests alone",
     only(RING, lib="#[cfg(test)]\nmod d;"), 0),
    ("circles", "a module inside of a file", only(RING, d="mod inner { use super::super::a::A; }"), 1),
    ("circles", "a path in a macro", only(RING, d="macro_rules! m { () => { $crate::a::A } }"), 1),
    ("circles", "Python modules in a ring, one import inside of a function",
     {f"py/pkg/{a}.py": t for a, t in zip("abcd", (
         "from . import b", "from .c import x", "import pkg.d", "def f():\n    from pkg.a import y"))}, 1),
    ("circles", "Python modules without a ring",
     {f"py/pkg/{a}.py": t for a, t in zip("abcd", ("from . import b", "from .c import x", "import pkg.d", "import os"))}, 0),
    ("circles", "TypeScript in a ring, one import of types",
     {f"page/src/{a}.ts": t for a, t in zip("abcd", (
         'import { x } from "./b";', "import type { Y } from './c';", 'export * from "./d";', 'import "./a";'))}, 1),
    ("circles", "TypeScript in a ring through a test",
     {f"page/src/{a}.ts": t for a, t in zip(("a", "b", "c", "d.test"), (
         'import { x } from "./b";', 'import { y } from "./c";', 'import z from "./d.test";', 'import "./a";'))}, 0),
    ("arrows", "a dependency that points down", LOW | HIGH, 0),
    ("arrows", "one that points up",
     LOW | HIGH | {"crates/low/Cargo.toml": '[package]\nname = "low"\n[dependencies]\nhigh = { path = "../high" }\n'}, 1),
    ("arrows", "one that points up, of tests",
     LOW | HIGH | {"crates/low/Cargo.toml": '[package]\nname = "low"\n[dev-dependencies]\nhigh = { path = "../high" }\n'}, 0),
    ("arrows", "a crate without a place",
     LOW | HIGH | {"crates/new/Cargo.toml": '[package]\nname = "new"\n', "crates/new/src/lib.rs": ""}, 1),
    ("disciplines", "a name in its own file, in the registry, in tests and in longer strings",
     LOW | DRR | {
         "crates/low/src/registry.rs": 'fn f() { "drr"; }',
         "crates/low/src/x.rs": 'fn f() { "drr is one"; }\n#[cfg(test)]\nmod tests { const S: &str = "drr"; }\n/// "drr"\nfn g() {}',
         "crates/low/tests/t.rs": 'fn f() { "drr"; }',
         "page/src/x.test.ts": 'x("drr")',
     }, 0),
    ("disciplines", "a name elsewhere", LOW | DRR | {"crates/low/src/x.rs": 'fn f() { "drr"; r#"drr"#; }'}, 2),
    ("disciplines", "a name in the dashboard and in Python",
     LOW | DRR | {"page/src/x.ts": "x('drr')  // 'drr'", "py/pkg/x.py": 'x = "drr"'}, 2),
    ("disciplines", "a folder of its own", LOW | {
        "crates/low/src/drr/mod.rs": 'const M: Entry = Entry { kind: "drr" };',
        "crates/low/src/drr/turn.rs": 'const S: &str = "drr";',
    }, 0),
    ("disciplines", "an allowed name", LOW | DRR | {"crates/low/src/x.rs": 'fn f() { "drr"; }'}, 0,
     allowing({"file": "crates/*/x.rs", "names": ["drr"], "why": "a reason"})),
    ("disciplines", "allowed without a reason", LOW | DRR | {"crates/low/src/x.rs": 'fn f() { "drr"; }'}, 1,
     allowing({"file": "crates/low/src/x.rs"})),
    ("disciplines", "allowed for nothing", LOW | DRR, 1, allowing({"file": "crates/low/src/x.rs", "why": "a reason"})),
    ("disciplines", "no discipline found", LOW, 1),
    ("types", "a name in three files", crate(a="struct Way;", b="enum Way {}", c="trait Way {}"), 1),
    ("types", "a name in two files and in tests",
     crate(a="struct Way;", b="type Way = u8;", c="#[cfg(test)]\nmod tests { struct Way; }"), 0),
    ("types", "an idiom", crate(a="struct Args;", b="struct Args;", c="struct Args;"), 0),
    ("types", "associated types", crate(
        a="trait A { type Out; }", b="impl A for B { type Out = u8; }", c="impl A for C { type Out = u8; }"), 0),
    ("types", "one name in fifty", crate(
        a="struct Way;" + "".join(f"struct S{n};" for n in range(49)), b="struct Way;", c="struct Way;"), 0),
    ("traits", "fourteen methods", crate(a="trait T { " + "".join(f"fn f{n}() {{ fn g() {{}} }}" for n in range(14)) + "}"), 0),
    ("traits", "fifteen methods", crate(a="trait T: Sized { " + "".join(f"fn f{n}();" for n in range(15)) + "}"), 1),
    ("traits", "fifteen methods for tests", crate(a="#[cfg(test)]\ntrait T { " + "".join(f"fn f{n}();" for n in range(15)) + "}"), 0),
    ("lines", "a hundred columns", crate(a="// " + "x" * 97), 0),
    ("lines", "a hundred and one", crate(a="// " + "x" * 98), 1),
    ("lines", "columns, not bytes", crate(a="// " + "é" * 97), 0),
    ("lines", "a table, a URL, a reference",
     crate(a=f"//! | a | {WIDE} |\n/// [it]: https://{WIDE}\n// https://{WIDE}"), 0),
    ("lines", "a URL among words", crate(a=f"// see https://{WIDE}"), 1),
    ("lines", "a string alone", crate(a=f'fn f() {{\n    g(\n        "{WIDE}",\n    );\n    let x = "{WIDE}".into();\n}}'), 0),
    ("lines", "an attribute with a string", crate(a=f'#[error("{WIDE}")]\nstruct S;'), 0),
    ("lines", "a string that fits on a line of its own", crate(a=f'fn f() {{ g("{"x" * 90}"); }}'), 1),
    ("lines", "a string that fits but for the comma", crate(a=f'const S: [&str; 1] = [\n    "{"x" * 94}",\n];'), 0),
    ("lines", "a string behind another word", crate(a=f'fn f() {{ g(1, "{WIDE}"); }}'), 1),
    ("lines", "code behind a string", crate(a=f'fn f() {{ g("{WIDE}", 1); }}'), 1),
    ("lines", "code that is too long", crate(a=f"fn f() {{{LONG} g(1);{LONG} }}"), 1),
    ("lines", "a text of several lines", crate(a=f'const S: &str = r#"a\n{WIDE}\n"#;\nconst T: &str = "\n{WIDE}\\n\\\n";'), 0),
    ("lines", "a text whose line ends in a backslash", crate(a=f'const S: &str = "\n{WIDE} \\\\\n  y";'), 0),
    ("lines", "a string continued by a backslash", crate(a=f'const S: &str = "{WIDE} \\\n  y";'), 1),
    ("lines", "tests too", LOW | {"crates/low/tests/t.rs": "// " + "x" * 98}, 1),
    ("prose", "a headless sentence", crate(a="/// What it holds.\nstruct S;"), 1),
    ("prose", "a headless sentence behind another", crate(a="/// A queue. What\n/// it holds.\nstruct S;"), 1),
    ("prose", "a question", crate(a="/// What is it?\nstruct S;"), 0),
    ("prose", "code in a comment", crate(a="/// ```text\n/// What nobody reads\n/// ```\nstruct S;"), 0),
    ("prose", "words in code", crate(a='const S: &str = "nobody";\nfn nobody() {}'), 0),
    ("prose", "a text for users", crate(a='const S: &str = "so \\\n  many packets";'), 1),
    ("prose", "a text that begins headless", crate(a='const S: &str = "What it holds";'), 1),
    ("prose", "one in lower case", crate(a='const S: &str = "what it holds";'), 1),
    ("prose", "a text that is a question", crate(a='const S: &str = "What is it?";'), 0),
    ("prose", "a text for tests", crate(a='#[cfg(test)]\nmod tests { const S: &str = "nobody is there"; }'), 0),
    ("prose", "texts of the dashboard and of Python",
     {"page/src/x.ts": 'x("Who held it")', "py/pkg/x.py": '"""What it is."""'}, 2),
    ("prose", "a packet as a person", crate(a="// A packet that nobody has read."), 1),
    ("prose", "a quantity without a name", crate(a="// It holds so many packets."), 1),
    ("prose", "forty words and one more",
     crate(a=f"// {'word ' * 39}word.\n", b=f"// {'word ' * 40}word.\n"), 1),
    ("prose", "a page, without its code and headings",
     LOW | {"docs/a.md": "# What it is\n\n| What |\n|---|\n\n    What runs\n\n```\nWhat runs\n```\n\nWhat is read.\n"}, 1),
    ("prose", "cells of a table", LOW | {"docs/a.md": "| a | what b |\n|---|---|\n| `x` | what it is |\n| nobody | `\\|` |\n"}, 2),
    ("prose", "comments of TypeScript", LOW | {"page/src/x.ts": "/** What it is. */\nx(); // so\n// many\ny('// What');\n"}, 2),
    ("prose", "comments of settings and scripts",
     LOW | {"a.toml": "# What it is\n# or was.\na = 1  # nobody\n", "a/run": "#!/bin/who\n# Nobody.\n"}, 2),
    ("prose", "comments of C", LOW | {"a.h": "/* A flow.\n *\n * What it has. */\nint a; /* who is next */\n"}, 2),
    ("prose", "a decision record", LOW | {"docs/decisions/0001-a.md": "What it was.\n"}, 0),
]


def main(checks):
    """Runs all cases; returns 1 if a check found another number of faults than expected."""
    failed = 0
    for check, shows, files, wanted, *data in CASES:
        with tempfile.TemporaryDirectory(prefix="falaj-house-") as root:
            for name, text in files.items():
                path = Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            findings, _ = checks[check](Tree(root), data[0] if data else DATA)
        if len(findings) != wanted:
            failed += 1
            print(f"{check}: {shows}: {len(findings)} found, {wanted} wanted", *findings, sep="\n    ", file=sys.stderr)
    missing = set(checks) - {case[0] for case in CASES if case[3]}
    for check in missing:
        print(f"{check}: no case on which it fails", file=sys.stderr)
    print(f"house: {len(CASES) - failed} of {len(CASES)} self-tests passed", file=sys.stderr)
    return 1 if failed or missing else 0
