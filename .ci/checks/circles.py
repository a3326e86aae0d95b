"""Check 1: import circles inside a crate, the Python package and the dashboard."""

import ast
import re
from collections import defaultdict
from dataclasses import dataclass, field
from posixpath import dirname, normpath

from . import rust
from .tree import Finding

LARGEST = 3


@dataclass
class Edge:
    """An import of one file by another: the imported names, and the lines that use them."""

    names: dict = field(default_factory=lambda: defaultdict(list))

    @property
    def line(self):
        return min(line for lines in self.names.values() for line in lines)


class Graph:
    """Files and their imports, as `edges[from][to]`."""

    def __init__(self):
        self.edges = defaultdict(dict)

    def add(self, origin, target, name, line):
        if origin != target:
            self.edges[origin].setdefault(target, Edge()).names[name].append(line)

    def circles(self, without=frozenset(), among=None):
        """Sets of files that import each other in a circle, largest first; without the edges `without`, and only among the files `among`."""
        order, low, stack, on_stack, found = {}, {}, [], set(), []
        nodes = sorted(among if among is not None else set(self.edges) | {t for to in self.edges.values() for t in to})
        inside = set(nodes)

        def after(node):
            return [t for t in self.edges.get(node, ()) if t in inside and (node, t) not in without]

        for first in nodes:
            if first in order:
                continue
            work = [(first, iter(after(first)))]
            order[first] = low[first] = len(order)
            stack.append(first)
            on_stack.add(first)
            while work:
                node, targets = work[-1]
                for target in targets:
                    if target not in order:
                        order[target] = low[target] = len(order)
                        stack.append(target)
                        on_stack.add(target)
                        work.append((target, iter(after(target))))
                        break
                    if target in on_stack:
                        low[node] = min(low[node], order[target])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == order[node]:
                        circle = set()
                        while True:
                            member = stack.pop()
                            on_stack.discard(member)
                            circle.add(member)
                            if member == node:
                                break
                        if len(circle) > 1:
                            found.append(circle)
        return sorted(found, key=lambda c: (-len(c), min(c)))

    def largest(self, without, among):
        """The number of files in the largest circle among the files `among` that is left without the edges `without`; 1 if none is."""
        return max((len(c) for c in self.circles(without, among)), default=1)

    def inner(self, circle):
        """The edges inside of `circle`."""
        return [(a, b) for a in sorted(circle) for b in sorted(self.edges.get(a, ())) if b in circle]

    def cuts(self, circle):
        """Removals that shrink `circle`, best first: (largest circle left, edges removed, what to move).

        A removal is one edge, the edges that exist only for one item of a file, or all edges into or out of a file.
        """
        found = []
        inner = self.inner(circle)
        for a, b in inner:
            left = self.largest(frozenset([(a, b)]), circle)
            found.append((left, ((a, b),), f"{a} -> {b} ({', '.join(sorted(self.edges[a][b].names))})"))
        items = defaultdict(set)
        for a, b in inner:
            for name in self.edges[a][b].names:
                items[b, name].add(a)
        for (b, name), users in items.items():
            gone = tuple((a, b) for a in sorted(users) if len(self.edges[a][b].names) == 1)
            if len(gone) > 1:
                left = self.largest(frozenset(gone), circle)
                found.append((left, gone, f"{name} out of {b} (used in {len(users)} files)"))
        for file in sorted(circle):
            into = tuple(edge for edge in inner if edge[1] == file)
            names = sorted({name for edge in into for name in self.edges[edge[0]][file].names})
            found.append(
                (self.largest(frozenset(into), circle), into, f"nothing imports {file} ({', '.join(names)})")
            )
            out = tuple(edge for edge in inner if edge[0] == file)
            found.append((self.largest(frozenset(out), circle), out, f"{file} imports none of {len(out)} others"))
        return sorted((f for f in found if f[0] < len(circle)), key=lambda f: (f[0], len(f[1]), f[2]))


class Modules:
    """The modules of one crate: finds the file that defines a path."""

    def __init__(self, crate, files):
        self.at = {}
        self.items = defaultdict(dict)
        self.uses = defaultdict(list)
        self.children = defaultdict(set)
        for file, source in files.items():
            if source.test_only:
                continue
            here = rust.module_path(crate, file)
            self._module(here, file)
            for item in source.items:
                path = here + item.module
                self._module(path, file)
                if item.depth == len(item.module):
                    self.items[path].setdefault(item.name, file)
            for use in source.uses:
                path = here + use.module
                self._module(path, file)
                self.uses[path].append(use)

    def _module(self, path, file):
        self.at.setdefault(path, file)
        for n in range(len(path)):
            self.children[path[:n]].add(path[n])

    def absolute(self, module, path):
        """Converts `path`, written in `module`, to a path from the crate's root; None if it leads out of the crate."""
        first, rest = path[0], path[1:]
        if first == "crate":
            return rest
        if first == "self":
            return module + rest
        if first == "super":
            up = module[:-1]
            while rest and rest[0] == "super":
                up, rest = up[:-1], rest[1:]
            return up + rest
        if first in self.children[module] or first in self.items[module] or self._imported(module, first):
            return module + path
        return None

    def _imported(self, module, name):
        return any(use.name == name for use in self.uses[module])

    def find(self, path, seen=frozenset()):
        """Resolves the absolute `path`: (the module's path, None) for a module, (file, the item's name) for an item.

        An unknown name, for example of a macro's item, counts as an item of its module's file; in the search through imports (`seen` is not
        empty) the result is None.
        """
        module = ()
        for n, name in enumerate(path):
            last = n + 1 == len(path)
            if name in self.children[module] and not (last and name in self.items[module]):
                module += (name,)
                continue
            if name in self.items[module]:
                return self.items[module][name], name
            found = self._by_import(module, name, seen)
            if found is None:
                return (self.at[module], name) if module in self.at and not seen else None
            if found[1] is None:
                return self.find(found[0] + path[n + 1 :], seen)
            return found
        return module, None

    def _by_import(self, module, name, seen):
        for use in self.uses[module]:
            key = (module, use.path, name)
            if use.name not in (name, None) or key in seen:
                continue
            path = self.absolute(module, use.path) if use.path[0] in ("crate", "self", "super") else None
            if path is None and use.path[0] != name and use.path[0] in self.children[module]:
                path = module + use.path
            if path is None:
                continue
            whole = path if use.name else path + (name,)
            found = self.find(whole, seen | {key})
            if found is not None:
                return found
        return None

    def file(self, path):
        """The file of the module `path`."""
        while path not in self.at and path:
            path = path[:-1]
        return self.at.get(path)


def crate_graph(crate, files):
    """The imports between the files of a crate. There is no edge between a file and a module file of a folder above it."""
    modules, graph = Modules(crate, files), Graph()

    def add(origin, found, name, line):
        if found is None:
            return
        target = modules.file(found[0]) if found[1] is None else found[0]
        if target is None:
            return
        a, b = rust.module_path(crate, origin), rust.module_path(crate, target)
        if a[: len(b)] != b and b[: len(a)] != a:
            graph.add(origin, target, name, line)

    for file, source in files.items():
        if source.test_only:
            continue
        here = rust.module_path(crate, file)
        through = set()
        for path, line, inside in source.paths:
            absolute = modules.absolute(here + inside, path)
            if absolute is None:
                continue
            through.add((here + inside, path[0]))
            found = modules.find(absolute)
            add(file, found, found and found[1] or path[-1], line)
        for use in source.uses:
            module = here + use.module
            absolute = modules.absolute(module, use.path) if use.path and use.path != (use.name,) else None
            if absolute is None:
                continue
            found = modules.find(absolute)
            if use.name is None and found is not None and found[1] is None:
                # A glob imports each name that this file uses.
                for word, line in source.words.items():
                    by_glob = modules.find(found[0] + (word,), frozenset([None]))
                    if by_glob is not None:
                        add(file, by_glob, word, line)
            elif found is not None and found[1] is None and (module, use.name) in through:
                # Paths in the code that begin with this imported module name the needed items.
                continue
            else:
                add(file, found, found and found[1] or use.path[-1], use.line)
    return graph


def python_graph(tree, folder):
    """The imports between the modules of a Python package, including imports inside functions; `__init__.py` is left out."""
    graph = Graph()
    files = {f.removeprefix(folder + "/").removesuffix(".py"): f for f in tree.below(folder, ".py")}
    package = folder.rsplit("/", 1)[-1]
    names = {n.removesuffix("/__init__").replace("/", "."): f for n, f in files.items()}
    for file in files.values():
        if file.endswith("__init__.py"):
            continue
        for node in ast.walk(ast.parse(tree.text(file))):
            wanted = []
            if isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level == 0 and base.split(".")[0] == package:
                    base = base.partition(".")[2]
                elif node.level == 0:
                    continue
                wanted = [f"{base}.{a.name}".strip(".") for a in node.names] + [base] * bool(base)
            elif isinstance(node, ast.Import):
                wanted = [a.name.partition(".")[2] for a in node.names if a.name.split(".")[0] == package]
            for name in wanted:
                if name in names and not names[name].endswith("__init__.py"):
                    graph.add(file, names[name], name, node.lineno)
    return graph


IMPORT = re.compile(r"""^\s*(?:import|export)\b[^;'"]*?\bfrom\s*["'](\.[^"']*)["']|\bimport\s*\(?\s*["'](\.[^"']*)["']""", re.M)


def typescript_graph(tree, folder):
    """The imports between the files of the dashboard, without tests. An import of types alone counts too."""
    graph = Graph()
    files = [f for f in tree.below(folder, ".ts") if not f.endswith(".test.ts")]
    for file in files:
        text = tree.text(file)
        for found in IMPORT.finditer(text):
            target = normpath(f"{dirname(file)}/{found.group(1) or found.group(2)}")
            for candidate in (target, target + ".ts", target + "/index.ts"):
                if candidate in files:
                    graph.add(file, candidate, candidate.rsplit("/", 1)[-1], text.count("\n", 0, found.start()) + 1)
    return graph


def graphs(tree, data):
    """The graph of each crate and package, by its folder."""
    found = {crate: crate_graph(crate, files) for crate, files in tree.sources.items()}
    for folder in data["python"]:
        found[folder] = python_graph(tree, folder)
    for folder in data["typescript"]:
        found[folder] = typescript_graph(tree, folder)
    return found


def check(tree, data):
    """Finds circles of more than three files. Each circle is one finding, at the edge to remove first; the count is of files."""
    findings, count = [], 0
    for folder, graph in graphs(tree, data).items():
        for circle in graph.circles():
            if len(circle) <= LARGEST:
                continue
            count += len(circle)
            cuts = graph.cuts(circle)
            if cuts:
                left, edges, text = cuts[0]
            else:
                left, edges = len(circle), graph.inner(circle)[:1]
                text = "no single cut shrinks it: `.ci/house --circles` shows more"
            origin, target = edges[0]
            findings.append(
                Finding(
                    origin,
                    graph.edges[origin][target].line,
                    f"{len(circle)} files of {folder} import each other in a circle",
                    f"move what is shared below both, best here: {text} leaves a circle of {left}"
                    if cuts
                    else text,
                )
            )
    return findings, count


def show(tree, data):
    """Prints each circle of more than three files: the best cuts, several in a row, and all edges."""
    for folder, graph in graphs(tree, data).items():
        circles = [c for c in graph.circles() if len(c) > LARGEST]
        print(f"{folder}: {', '.join(f'a circle of {len(c)} files' for c in circles) or 'no circle of more than 3 files'}")
        for circle in circles:
            short = lambda text: text.replace(f"{folder}/src/", "").replace(f"{folder}/", "")  # noqa: E731
            print(f"\n  circle of {len(circle)}: {short(' '.join(sorted(circle)))}")
            print("  single cuts, and the largest circle that each leaves:")
            for left, _, text in graph.cuts(circle)[:12]:
                print(f"    {left:3}  {short(text)}")
            print("  cuts one after the other, each the best that is left:")
            gone, rest = set(), circle
            for _ in range(40):
                smaller = Graph()
                for a, b in graph.inner(rest):
                    if (a, b) not in gone:
                        smaller.edges[a][b] = graph.edges[a][b]
                parts = smaller.circles()
                if not parts or len(parts[0]) <= LARGEST:
                    break
                rest = parts[0]
                cuts = smaller.cuts(rest)
                if not cuts:
                    pieces = smaller.inner(rest)
                    print(f"         no single cut shrinks the {len(rest)} that are left ({len(pieces)} edges)")
                    break
                left, edges, text = cuts[0]
                gone.update(edges)
                print(f"    {left:3}  {short(text)}")
            print("  edges:")
            for a, b in graph.inner(circle):
                edge = graph.edges[a][b]
                print(f"    {short(a)}:{edge.line} -> {short(b)}: {', '.join(sorted(edge.names))}")
            print()
