"""What a result depends on: the source of every definition that the code which computes it can reach.

A definition (a function, class or value at the top level of a module) reaches those that it names: in its own module
or, by the imports of that, in another module of ours. This is read from the source, not run. It finds too much rather
than too little: a method is reached with its whole class, and what is passed as a value by the type of that value.
Docstrings, comments, annotations, import lines and the names of modules compute nothing and are left out, and so is
all that only shows what was computed, although it may stand in the same file.
"""

from __future__ import annotations

import ast
import importlib.util
import symtable
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import FunctionType

OURS = ("vedute", "vedute_reproduction")  # packages whose source is read; others count by their versions
Place = tuple[str, str]  # a module and a name at its top level


@dataclass(frozen=True)
class Module:
    """The top level of a module by name, where its imported names come from, and statements that bind no name."""

    definitions: Mapping[str, tuple[ast.stmt, ...]]
    imports: Mapping[str, tuple[str, str]]  # name -> module and name there; "" is the whole module
    rest: tuple[ast.stmt, ...]


def code_of(*roots: object) -> bytes:
    """The text of all that functions, classes and values reach; where a definition stands does not matter."""
    return _text(frozenset(place for root in roots for place in places_of(root)))


@cache
def _text(places: frozenset[Place]) -> bytes:
    texts = {ast.unparse(statement) for place in closure(places) for statement in _statements(place)}
    return "\n".join(sorted(texts)).encode()


def closure(places: Iterable[Place]) -> set[Place]:
    """All definitions that are reached from some of them."""
    waiting, found = list(places), set[Place]()
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting += _named(place)
    return found


def places_of(root: object) -> Iterator[Place]:
    """Where a root is defined: itself, or the types of a value and of all values in it."""
    kind = root if isinstance(root, type | FunctionType) else type(root)
    if kind.__module__.split(".")[0] in OURS:
        yield kind.__module__, kind.__qualname__.split(".")[0]
    if is_dataclass(root) and not isinstance(root, type):
        for field in fields(root):
            yield from places_of(getattr(root, field.name))
    elif isinstance(root, tuple | list | dict):
        for value in root.values() if isinstance(root, dict) else root:
            yield from places_of(value)


def _statements(place: Place) -> tuple[ast.stmt, ...]:
    """What stands at a place, and what the module does besides."""
    module = _module(place[0])
    return *module.definitions[place[1]], *module.rest


@cache
def _named(place: Place) -> frozenset[Place]:
    """What a definition reaches at once."""
    found: set[Place] = set()
    for statement in _statements(place):
        nodes, free = list(ast.walk(statement)), set(_free(symtable.symtable(ast.unparse(statement), "", "exec")))
        parted = {id(node.value): node.attr for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            if isinstance(node, ast.Name) and node.id in free:
                found.update(_resolved(place[0], node.id, parted.get(id(node))))
    return frozenset(found)


def _free(scope: symtable.SymbolTable) -> Iterator[str]:
    """Names that are used in a scope, or in one within it, and come from the module."""
    outermost = scope.get_type() == "module"
    for symbol in scope.get_symbols():
        if symbol.is_referenced() and (outermost or symbol.is_global()):
            yield symbol.get_name()
    for inner in scope.get_children():
        yield from _free(inner)


def _resolved(module: str, name: str, attribute: str | None = None) -> Iterator[Place]:
    """Where a name that a module uses is defined, if by us; of an imported module its attribute, or all of it."""
    own = _module(module)
    if name in own.definitions:
        yield module, name
    elif name in own.imports:
        origin, there = own.imports[name]
        whole = f"{origin}.{there}" if there else origin
        if _file(whole) is not None:
            for part in _module(whole).definitions if attribute is None else [attribute]:
                yield from _resolved(whole, part)
        elif _file(origin) is not None:
            yield from _resolved(origin, there)


@cache
def _file(module: str) -> Path | None:
    """The file of a module of ours."""
    package, *parts = module.split(".")
    spec = importlib.util.find_spec(package) if package in OURS else None
    if spec is None or spec.origin is None:
        return None
    place = Path(spec.origin).parent.joinpath(*parts)
    return next((file for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file()), None)


@cache
def _module(name: str) -> Module:
    file = _file(name)
    assert file is not None, name
    tree = ast.parse(file.read_bytes())
    imports: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):  # those inside functions, too, which are loaded late
        if isinstance(node, ast.ImportFrom):
            imports |= {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            imports |= {alias.asname: (alias.name, "") for alias in node.names if alias.asname}
    definitions: dict[str, tuple[ast.stmt, ...]] = {}
    rest = []
    for statement in _Bare().visit(tree).body:
        names = set(_bound(statement))
        for bound in names:
            definitions[bound] = (*definitions.get(bound, ()), statement)
        if not names and not isinstance(statement, ast.Pass):
            rest.append(statement)
    return Module(definitions, imports, tuple(rest))


def _bound(statement: ast.stmt) -> Iterable[str]:
    """The names that a statement at the top level binds."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    inner = [node for node in ast.walk(statement) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    stored = [node for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return [*(node.name for node in inner), *(node.id for node in stored)]


class _Bare(ast.NodeTransformer):
    """Takes away what computes nothing: docstrings and other bare strings, imports, annotations."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """A docstring, or a call."""
        silent = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.Pass() if silent else self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> ast.AST:
        """A module's own name."""
        return ast.Pass()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        """Where a name comes from."""
        return ast.Pass()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """What a function returns."""
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """What it takes."""
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """What kind of value a name holds."""
        node.annotation = ast.Constant(...)
        return self.generic_visit(node)
