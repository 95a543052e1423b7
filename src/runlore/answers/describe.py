"""Descriptions of fields: the string below a field in the source of its struct, read on demand.

A struct that presents other values names them in `PRESENTS`: a field without a description of its
own is described as the field of the same name there.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from ..model import Cost, Session
from ..store import SessionLine
from . import structs_in

PRESENTED: dict[type[msgspec.Struct], tuple[type, ...]] = {SessionLine: (Session, Cost)}
"""The values that a struct presents, where it does not say so itself."""


ALIASES = {"uid": "session_uid", "agent": "flavor", "branch": "git_branch"}
"""The names of a listing for fields of a session."""


@cache
def descriptions(kind: type) -> dict[str, str]:
    """Return the descriptions of a type's fields, by name. Not every field has one."""
    known: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        own = _own_descriptions(base)
        values = [descriptions(value) for value in presented(base)]
        for name, text in own.items():
            known.pop(name, None)
            names = (name, ALIASES.get(name, name))
            texts = [text, *(value.get(one, "") for value in values for one in names)]
            if description := next(filter(None, texts), ""):
                known[name] = description
    return known


def presented(kind: type) -> tuple[type, ...]:
    """Return the values that a type presents, the first one first."""
    own: tuple[type, ...] = kind.__dict__.get("PRESENTS", ())
    return own or PRESENTED.get(kind, ())


def about(kind: type) -> str:
    """Return the first paragraph of a type's docstring, in one line."""
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())


def schema_components(
    kinds: Iterable[Any], ref_template: str
) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """Return the JSON Schemas of these types, and their components with described fields."""
    kinds = list(kinds)
    structs = structs_in(kinds)
    schemas, components = msgspec.json.schema_components(
        [*kinds, *structs], ref_template=ref_template
    )
    for kind, schema in zip(structs, schemas[len(kinds) :], strict=True):
        component = components[schema["$ref"].rpartition("/")[2]]
        for name, text in descriptions(kind).items():
            if name in component.get("properties", {}):
                component["properties"][name].setdefault("description", text)
    return schemas[: len(kinds)], components


def _own_descriptions(kind: type) -> dict[str, str]:
    """Return the fields that a class itself declares, each with its description or with ""."""
    return _module_descriptions(kind.__module__).get(kind.__qualname__, {})


@cache
def _module_descriptions(module: str) -> dict[str, dict[str, str]]:
    """Return the descriptions in all classes of a module. Without its source there are none."""
    if not module.startswith("runlore."):
        return {}
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        return {}
    return {node.name: _field_strings(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _field_strings(node: ast.ClassDef) -> dict[str, str]:
    fields: dict[str, str] = {}
    for statement, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            fields[statement.target.id] = _text(after)
    return fields


def _text(statement: ast.stmt | None) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return " ".join(str(statement.value.value).split())
    return ""
