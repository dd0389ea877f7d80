"""JSON of values, and its schema: both from annotations."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from typing import Any, Literal, Union

_SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def to_json(value: Any) -> str:
    """Returns a value as JSON. Dataclasses become objects."""
    return json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    raise TypeError(f"{type(value).__name__} has no JSON")


def schema(annotation: Any) -> dict[str, Any]:
    """Returns the JSON Schema of an annotation. Raises TypeError if it has none."""
    definitions: dict[str, Any] = {}
    root = _schema(annotation, definitions)
    return {**root, "$defs": definitions} if definitions else root


def _schema(annotation: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        texts = [text for text in arguments[1:] if isinstance(text, str)]
        described = {"description": " ".join(texts)} if texts else {}
        return {**_schema(arguments[0], definitions), **described}
    if annotation in (Any, object):
        return {}
    if annotation is None or annotation in _SIMPLE:
        return {"type": _SIMPLE[type(None) if annotation is None else annotation]}
    if _is_union(origin):
        return {"anyOf": [_schema(argument, definitions) for argument in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if annotation is list:
        return {"type": "array"}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if annotation is dict:
        return {"type": "object"}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return {"enum": [member.value for member in annotation]}
    if dataclasses.is_dataclass(annotation) or typing.is_typeddict(annotation):
        return _reference(annotation, definitions)
    raise TypeError(
        f"{annotation!r} has no JSON Schema: use dataclasses, typed dictionaries, list, dict[str, …], str, int, float, "
        "bool, None, Literal, enumerations or Any"
    )


def _reference(annotation: type, definitions: dict[str, Any]) -> dict[str, Any]:
    name = annotation.__qualname__
    if name not in definitions:
        definitions[name] = {}  # It may refer to itself.
        hints = typing.get_type_hints(annotation, include_extras=True)
        properties = {key: _schema(hint, definitions) for key, hint in hints.items()}
        definitions[name] = {"type": "object", "properties": properties, "required": sorted(_required(annotation))}
        about = annotation.__doc__
        if about and not about.startswith(annotation.__name__ + "("):
            definitions[name]["description"] = about
    return {"$ref": f"#/$defs/{name}"}


def _required(annotation: Any) -> set[str]:
    if typing.is_typeddict(annotation):
        return set(annotation.__required_keys__)
    fields = dataclasses.fields(annotation)
    missing = dataclasses.MISSING
    return {field.name for field in fields if field.default is missing and field.default_factory is missing}


def convert(annotation: Any, value: Any, path: str = "") -> Any:
    """Returns JSON as a value of an annotation. Raises ValueError with the path of what does not fit."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return convert(arguments[0], value, path)
    if annotation in (Any, object):
        return value
    if annotation is None or annotation in _SIMPLE:
        return _simple(type(None) if annotation is None else annotation, value, path)
    if _is_union(origin):
        return _one_of(arguments, value, path)
    if origin is Literal:
        return _check(any(value == it and type(value) is type(it) for it in arguments), value, annotation, path)
    if origin is list or annotation is list:
        _check(isinstance(value, list), value, "a list", path)
        of = arguments[0] if arguments else Any
        return [convert(of, item, f"{path}[{at}]") for at, item in enumerate(value)]
    if origin is dict or annotation is dict:
        _check(isinstance(value, dict), value, "an object", path)
        of = arguments[1] if arguments else Any
        return {key: convert(of, item, _below(path, key)) for key, item in value.items()}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        values = [member.value for member in annotation]
        return annotation(_check(value in values, value, f"one of {values}", path))
    return _object(annotation, value, path)


def _object(annotation: Any, value: Any, path: str) -> Any:
    _check(isinstance(value, dict), value, "an object", path)
    for key in sorted(_required(annotation)):
        if key not in value:
            raise ValueError(f"{_below(path, key)} is missing")
    hints = typing.get_type_hints(annotation, include_extras=True)
    fields = {key: convert(hint, value[key], _below(path, key)) for key, hint in hints.items() if key in value}
    return fields if typing.is_typeddict(annotation) else annotation(**fields)


def _simple(annotation: type, value: Any, path: str) -> Any:
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if annotation is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return _check(type(value) is annotation, value, _SIMPLE[annotation], path)


def _one_of(arguments: tuple[Any, ...], value: Any, path: str) -> Any:
    errors = []
    for argument in arguments:
        try:
            return convert(argument, value, path)
        except ValueError as error:
            errors.append(str(error))
    raise ValueError("; or ".join(errors))


def _check(fits: bool, value: Any, expected: object, path: str) -> Any:
    if not fits:
        raise ValueError(f"{path or 'the whole'} is {json.dumps(value)[:80]}, not {expected}")
    return value


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _is_union(origin: Any) -> bool:
    return origin is Union or origin is types.UnionType
