"""Reads the parts of Rust sources that the checks need: code without comments and without tests, and string literals."""

import bisect
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

TOKEN = re.compile(
    r"""
      //[^\n]*
    | /\*
    | (?<!\w)[bc]?r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)
    | "(?P<plain>(?:[^"\\]|\\.)*)"
    | '(?:[^'\\\n]|\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.))'
    """,
    re.VERBOSE | re.DOTALL,
)
COMMENT_EDGE = re.compile(r"/\*|\*/")
# All but line ends: blanked text keeps its lines and columns.
VISIBLE = re.compile(r"[^\n]")
BRACKET = re.compile(r"[][(){}]")
CFG = re.compile(r"#\s*(!?)\s*\[\s*(?:cfg\s*\(|test\s*\]|bench\s*\])")
ATTRIBUTE = re.compile(r"\s*#\s*!?\s*\[")
MODULE = re.compile(r"\bmod\s+(?:r#)?(\w+)\s*([;{])")
ITEM = re.compile(
    r"\b(fn|struct|enum|union|trait|type|const|static|macro_rules!)\s+(?:mut\s+)?(?:r#)?([A-Za-z_]\w*)"
)
USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:.])(?:\$\s*)?(?:r#)?[A-Za-z_]\w*(?:\s*::\s*(?:r#)?[A-Za-z_]\w*)+")
WORD = re.compile(r"[A-Za-z_]\w*")
IMPL = re.compile(r"\b(?:impl|trait)\b")


@dataclass
class Literal:
    """A string literal: its extent in the file, quotes included, and its text as written."""

    start: int
    end: int
    text: str
    raw: bool


@dataclass
class Item:
    """A definition: `kind` is the keyword; `depth` is the number of braces around it; `inside` is true within an impl or a trait."""

    kind: str
    name: str
    line: int
    depth: int
    inside: bool
    methods: int = 0
    module: tuple = ()


@dataclass
class Use:
    """An import: `path` as written, the name it gets here (None for a glob)."""

    path: tuple
    name: str | None
    line: int
    module: tuple


@dataclass
class Source:
    """The facts of one file. Modules written in it are named by their path within it."""

    file: str
    items: list = field(default_factory=list)
    uses: list = field(default_factory=list)
    paths: list = field(default_factory=list)
    # Each word that a glob import may define, with its first line.
    words: dict = field(default_factory=dict)
    strings: list = field(default_factory=list)
    # Names of modules that exist for tests alone and have files of their own, each with the
    # module that declares it.
    test_modules: list = field(default_factory=list)
    test_only: bool = False


def blank(text):
    """`text` with a blank for each character except line ends."""
    return VISIBLE.sub(" ", text)


def mask(text):
    """Returns `text` with comments and the contents of string and character literals blanked; and the string literals."""
    out, literals, at = [], [], 0
    while found := TOKEN.search(text, at):
        start, end = found.span()
        out.append(text[at:start])
        token = found.group()
        if token == "/*":
            depth, end = 1, start + 2
            while depth and (edge := COMMENT_EDGE.search(text, end)):
                depth += 1 if edge.group() == "/*" else -1
                end = edge.end()
            if depth:
                end = len(text)
            out.append(blank(text[start:end]))
        elif token.startswith("//"):
            out.append(" " * len(token))
        elif token.startswith("'"):
            out.append("'" + " " * (len(token) - 2) + "'")
        else:
            raw = found["raw"] is not None
            literals.append(Literal(start, end, found["raw"] if raw else found["plain"], raw))
            out.append('"' + blank(token[1:-1]) + '"')
        at = end
    out.append(text[at:])
    return "".join(out), literals


def pairs(code):
    """Maps the position of each opening bracket to that of its closing bracket."""
    closing, open_ones = {}, []
    for found in BRACKET.finditer(code):
        if found.group() in "([{":
            open_ones.append(found.start())
        elif open_ones:
            closing[open_ones.pop()] = found.start()
    return closing


def split_at_commas(text):
    """The parts of `text` between commas outside of brackets."""
    parts, depth, began = [], 0, 0
    for at, sign in enumerate(text):
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append(text[began:at])
            began = at + 1
    parts.append(text[began:])
    return [p.strip() for p in parts if p.strip()]


def needs_test(condition):
    """Returns true if the condition of a `cfg` holds in tests alone."""
    condition = condition.strip()
    if condition == "test":
        return True
    if condition.startswith("all(") and condition.endswith(")"):
        return any(needs_test(part) for part in split_at_commas(condition[4:-1]))
    if condition.startswith("any(") and condition.endswith(")"):
        parts = split_at_commas(condition[4:-1])
        return bool(parts) and all(needs_test(part) for part in parts)
    return False


def end_of_item(code, at, closing):
    """The end of the item, statement, field or arm that begins at `at`, attributes before it included."""
    while attribute := ATTRIBUTE.match(code, at):
        at = closing.get(attribute.end() - 1, len(code)) + 1
    word = re.compile(r"\s*(?:pub\s*(?:\([^)]*\))?\s*)?(\w+)").match(code, at)
    by_semicolon = word is not None and word.group(1) in {"use", "let", "static", "type", "const"}
    if by_semicolon and word.group(1) == "const" and re.compile(r"\s*(?:async\s+|unsafe\s+)*fn\b").match(code, word.end()):
        by_semicolon = False
    for_item = by_semicolon or word is not None and word.group(1) in {
        "fn", "mod", "struct", "enum", "trait", "impl", "union", "unsafe", "async", "extern", "const", "macro_rules",
    }
    while at < len(code):
        sign = code[at]
        if sign in "([{":
            at = closing.get(at, len(code))
            if sign == "{" and not by_semicolon:
                return at + 1
        elif sign == ";" or sign == "," and not for_item:
            return at + 1
        elif sign in ")]}":
            return at
        at += 1
    return at


def without_tests(code, closing, source):
    """Returns `code` with the code for tests alone blanked; adds test modules that have files of their own to `source`."""
    out, at = [], 0
    while found := CFG.search(code, at):
        opening = code.index("[", found.start())
        end = closing.get(opening, len(code) - 1) + 1
        if "cfg" in found.group():
            inner = found.end() - 1
            if not needs_test(code[inner + 1 : closing.get(inner, inner + 1)]):
                out.append(code[at:end])
                at = end
                continue
        if found.group(1):
            source.test_only = True
            return blank(code)
        out.append(code[at : found.start()])
        stop = end_of_item(code, end, closing)
        item = code[found.start() : stop]
        if declared := MODULE.search(item):
            if declared.group(2) == ";":
                source.test_modules.append((declared.group(1), found.start()))
        out.append(blank(item))
        at = stop
    out.append(code[at:])
    return "".join(out)


def imports(text):
    """The paths of the tree of a `use`, each with the name it gets (None for a glob)."""
    text = text.strip().removeprefix("::").strip()
    if text.startswith("{"):
        return [(path, name) for part in split_at_commas(text[1 : text.rindex("}")]) for path, name in imports(part)]
    if (brace := text.find("{")) >= 0:
        prefix = segments(text[:brace].rstrip().removesuffix("::"))
        found = []
        for part in split_at_commas(text[brace + 1 : text.rindex("}")]):
            for path, name in imports(part):
                if path == ("self",):
                    found.append((prefix, name if name != "self" else prefix[-1]))
                else:
                    found.append((prefix + path, name))
        return found
    path, _, name = text.partition(" as ")
    path = segments(path)
    if not path:
        return []
    if path[-1] == "*":
        return [(path[:-1], None)]
    return [(path, name.strip() or path[-1])]


def segments(path):
    """The words of a path: `a::b` is `("a", "b")`."""
    words = (w.strip().removeprefix("r#").lstrip("$").strip() for w in path.split("::"))
    return tuple(w for w in words if w)


def parse(file, text):
    """The facts of one file."""
    source = Source(file)
    code, literals = mask(text)
    closing = pairs(code)
    code = without_tests(code, closing, source)
    closing = {o: c for o, c in closing.items() if code[o] != " "}
    starts = [0] + [m.end() for m in re.finditer("\n", text)]

    def line(at):
        return bisect.bisect_right(starts, at)

    source.strings = [(line(s.start), s.text) for s in literals if code[s.start] == '"' or code[s.end - 1] == '"']

    # Modules written in this file, outermost first.
    inline = []
    for found in MODULE.finditer(code):
        if found.group(2) == "{":
            inline.append((found.end() - 1, closing.get(found.end() - 1, len(code)), found.group(1)))

    def module(at):
        return tuple(name for start, end, name in inline if start < at < end)

    source.test_modules = [(name, module(at)) for name, at in source.test_modules]

    braces = sorted([(o, 1) for o in closing if code[o] == "{"] + [(c, -1) for o, c in closing.items() if code[o] == "{"])
    places, depths, depth = [], [], 0
    for at, step in braces:
        depth += step
        places.append(at)
        depths.append(depth)

    def depth_at(at):
        found = bisect.bisect_right(places, at)
        return depths[found - 1] if found else 0

    bodies = []
    for found in IMPL.finditer(code):
        opening = code.find("{", found.end())
        if opening >= 0 and ";" not in code[found.end() : opening]:
            bodies.append((opening, closing.get(opening, len(code))))

    functions = [m.start() for m in re.finditer(r"\bfn\s+\w", code)]
    for found in ITEM.finditer(code):
        at = found.start()
        item = Item(
            found.group(1),
            found.group(2),
            line(at),
            depth_at(at),
            any(start < at < end for start, end in bodies),
            module=module(at),
        )
        if item.kind == "trait":
            opening = code.find("{", found.end())
            if opening >= 0:
                inner = depth_at(opening)
                end = closing.get(opening, len(code))
                item.methods = sum(1 for f in functions if opening < f < end and depth_at(f) == inner)
        source.items.append(item)

    rest = []
    at = 0
    for found in USE.finditer(code):
        for path, name in imports(found.group(1)):
            source.uses.append(Use(path, name, line(found.start()), module(found.start())))
        rest.append(code[at : found.start()])
        rest.append(blank(found.group()))
        at = found.end()
    rest.append(code[at:])
    rest = "".join(rest)
    for found in PATH.finditer(rest):
        source.paths.append((segments(found.group()), line(found.start()), module(found.start())))
    if any(use.name is None for use in source.uses):
        for found in WORD.finditer(rest):
            source.words.setdefault(found.group(), found.start())
        source.words = {word: line(at) for word, at in source.words.items()}
    return source


def _parse_file(root, file):
    return file, parse(file, (Path(root) / file).read_text(encoding="utf-8"))


def _parse_files(arguments):
    root, files = arguments
    return [_parse_file(root, file) for file in files]


def read(root, files):
    """The facts of each of `files`, as pairs (file, Source); 50 files or more are read in parallel on all cores."""
    if len(files) < 50:
        return [_parse_file(root, file) for file in files]
    parts = [files[n::16] for n in range(16)]
    with ProcessPoolExecutor() as pool:
        return [found for part in pool.map(_parse_files, [(str(root), p) for p in parts]) for found in part]


def module_path(crate, file):
    """The module path of `file`, from its place in the folders: `src/a/b.rs` is `("a", "b")`; a crate's root is `()`."""
    words = file.removeprefix(f"{crate}/src/").removesuffix(".rs").split("/")
    if words[-1] == "mod" or words in (["lib"], ["main"]):
        words.pop()
    return tuple(words)


def leave_out_test_modules(crate, files):
    """Marks files of modules that exist for tests alone, and files in a folder named `tests`."""
    for file, source in files.items():
        here = module_path(crate, file)
        for name, inside in source.test_modules:
            path = here + inside + (name,)
            for other, found in files.items():
                if module_path(crate, other)[: len(path)] == path:
                    found.test_only = True
    for file, source in files.items():
        if "tests" in file.removeprefix(f"{crate}/src/").split("/")[:-1]:
            source.test_only = True
