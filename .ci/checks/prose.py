"""Check 6: comments, pages and texts for users are in plain English, by rules that a program can check."""

import re

from .disciplines import strings
from .tree import Finding

# Files that are generated, and the list of changes, which stays as it was written.
MADE = ("docs/reference/cli.md", "docs/reference/scenario.md", "docs/reference/disciplines.md", "CHANGELOG.md")
WORDS = 40
SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`*\[])|(?<=[.!?])\s+")
# A comment alone on a line: in Rust, and in scripts and settings.
COMMENT = re.compile(r"^\s*//[/!]?\s?(.*)$")
HASH_COMMENT = re.compile(r"^\s*#(?!!)\s?(.*)$")
HASH_FILES = (".toml", ".yml", ".sh", ".service", ".py", "Makefile", "Dockerfile", "/run", "/build", "/dist", "/house", "/sbom")
# Strings are matched too, because a string may contain the mark of a comment.
SCRIPT_COMMENT = re.compile(
    r"""["](?:\\.|[^"\\\n])*["]|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`|(/\*.*?\*/|//[^\n]*(?:\n[ \t]*//[^\n]*)*)""", re.S
)
CELL_END = re.compile(r"(?<!\\)\|")
# The line below the head of a table.
RULER = re.compile(r"\|[\s:|-]+\|$")
RULES = [
    ("headless", re.compile(r"^(?:What|Who|Whoever|Whose)\b(?!.*\?$)"), "begin with the thing itself as the subject"),
    ("who", re.compile(r"(?<!-)\b(?:whoever|nobody|somebody|whom)\b", re.I), "a thing is `it`; name it"),
    ("quantity", re.compile(r"\bso (?:many|much)\b", re.I), "name the quantity"),
]


def paragraphs(text, comment=None):
    """The paragraphs of a page, or of the comments that `comment` matches, each with the number of its first line. Each
    cell of a table is a paragraph; the cells of its head are left out."""
    fenced, current, first = False, [], 0
    markdown = comment is None
    lines = [*text.split("\n"), ""]
    if comment:
        lines = [found and found.group(1) for found in map(comment.match, lines)]
    for number, prose in enumerate(lines, 1):
        if markdown and prose.startswith("    ") and not current:
            continue
        if prose is None:
            fenced, prose = False, ""
        if prose.lstrip().startswith("```"):
            fenced = not fenced
            prose = ""
        body = prose.strip()
        # Headings, tables and list items end a paragraph; code is not a paragraph.
        alone = body.startswith(("#", "|", "- ", "* ", "<!--", "$ ")) or re.match(r"\d+\. ", body)
        if current and (not body or alone or fenced):
            yield first, " ".join(current)
            current = []
        if body.startswith("|") and not fenced and not RULER.match((lines[number] or "").strip()):
            yield from ((number, cell.strip()) for cell in CELL_END.split(body))
        if body and not fenced and not body.startswith(("#", "|", "<!--", "$ ")):
            if not current:
                first = number
            current.append(re.sub(r"^(?:[-*]|\d+\.) ", "", body))


def comments(text):
    """The comments of a file in TypeScript or C, each with the number of its first line; without the marks of comments."""
    for found in SCRIPT_COMMENT.finditer(text):
        if found.group(1):
            body = found.group(1).removesuffix("*/")
            yield text.count("\n", 0, found.start(1)) + 1, re.sub(r"^[ \t]*(?:/\*+|//|\*)[ \t]?", "", body, flags=re.M)


def prose(tree, file):
    """All paragraphs of `file`, each with its line."""
    if file.endswith(".md"):
        if not file.startswith("docs/decisions/") and file not in MADE:
            yield from paragraphs(tree.text(file))
    elif file.endswith(".rs"):
        yield from paragraphs(tree.text(file), COMMENT)
    elif file.endswith(HASH_FILES):
        yield from paragraphs(tree.text(file), HASH_COMMENT)
    elif file.endswith((".ts", ".c", ".h")):
        for start, comment in comments(tree.text(file)):
            yield from ((start + line - 1, paragraph) for line, paragraph in paragraphs(comment))


def sentences(paragraph):
    """The sentences of a paragraph, code spans as one word."""
    plain = re.sub(r"`[^`]*`", "CODE", paragraph)
    plain = re.sub(r"\]\([^)]*\)", "]", plain)
    plain = plain[:1].upper() + plain[1:]
    return [s for s in SENTENCE_END.split(plain) if s]


def faults(text):
    """The faults of a paragraph: the rule's name, the words, the cure."""
    for sentence in sentences(text):
        for name, pattern, cure in RULES:
            if found := pattern.search(sentence):
                yield name, f"`{found.group(0)}` in “{sentence[:60]}”", cure
        if (count := len(sentence.split())) > WORDS:
            yield "long", f"a sentence of {count} words: “{sentence[:60]}”", "make two of it"


def text_of(literal):
    """The text of a string literal, on one line; a continued line has neither its `\\` nor the blanks below it."""
    return re.sub(r"(?:\\n|\s)+", " ", re.sub(r"\\\n\s*", "", literal)).strip()


def faults_of_literal(text):
    """The faults of a string literal of several words. The rule `headless` applies only to its first sentence."""
    if " " not in text:
        return
    for name, pattern, cure in RULES:
        found = pattern.search(sentences(text)[0] if name == "headless" else text)
        if found:
            yield name, f"`{found.group(0)}` in the text “{text[max(0, found.start() - 30):][:60]}”", cure


def check(tree, data):
    """Finds the sentences that break a rule."""
    findings = []
    for file, line, literal in strings(tree, data):
        findings += [Finding(file, line, wrong, cure) for _, wrong, cure in faults_of_literal(text_of(literal))]
    for file in tree.files:
        for line, paragraph in prose(tree, file):
            findings += [Finding(file, line, wrong, cure) for _, wrong, cure in faults(paragraph)]
    return findings, len(findings)
