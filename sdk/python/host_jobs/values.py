"""JSON of values: written from what Python has, and read as the type of an annotation. `schemas` has the schemas."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import json
import re
import sys
import types
import typing
import uuid
from typing import Any, Callable, ClassVar, Literal, Union

SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection, collections.abc.MutableSequence)
SETS = (set, frozenset, collections.abc.Set)
MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_QUALIFIERS = tuple(getattr(typing, name) for name in ("Required", "NotRequired", "ReadOnly", "Final") if hasattr(typing, name))


def to_json(value: Any) -> str:
    """Returns a value as JSON. Dataclasses become objects. Raises TypeError or ValueError if it has none."""
    try:
        given = json.dumps(value, default=plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        given.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"a text has half of a character: {error.object[error.start :][:20]!a}") from None
    except RecursionError:
        raise ValueError("the value is nested too deeply") from None
    return given


def plain(value: Any) -> Any:
    """Returns a value that JSON has instead of one that it has not."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return duration(value)
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, (collections.abc.Set, collections.abc.Mapping)):
        return dict(value) if isinstance(value, collections.abc.Mapping) else list(value)
    written = model_writer(type(value))
    if written is not None:
        return written(value)
    raise TypeError(f"{type(value).__name__} has no JSON")


def model_writer(kind: type) -> Callable[[Any], Any] | None:
    """Returns what makes JSON of the instances of a class of pydantic, attrs or msgspec."""
    if callable(getattr(kind, "model_dump", None)):
        return lambda value: value.model_dump(mode="json")
    if hasattr(kind, "__attrs_attrs__"):
        return lambda value: {it.name: getattr(value, it.name) for it in kind.__attrs_attrs__}
    if hasattr(kind, "__struct_fields__"):
        return lambda value: {name: getattr(value, name) for name in kind.__struct_fields__}
    return None


def duration(value: datetime.timedelta) -> str:
    """Returns a time span in the notation of ISO 8601."""
    sign, whole = ("-", -value) if value < datetime.timedelta() else ("", value)
    seconds = f"{whole.seconds}.{whole.microseconds:06}".rstrip("0").rstrip(".")
    return f"{sign}P{whole.days}DT{seconds}S"


_DURATION = re.compile(r"(-)?P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def _read_duration(given: Any) -> datetime.timedelta:
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        return datetime.timedelta(seconds=given)
    found = _DURATION.fullmatch(given)
    if not found or given[-1] in "PT":
        raise ValueError
    weeks, days, hours, minutes, seconds = (float(part or 0) for part in found.groups()[1:])
    span = datetime.timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return -span if found[1] else span


def _read_decimal(given: Any) -> decimal.Decimal:
    if isinstance(given, bool) or not isinstance(given, (int, float, str)):
        raise ValueError
    read = decimal.Decimal(str(given))
    if not read.is_finite():
        raise ValueError
    return read


# How each of these is read, what it is called in messages, and its schema.
TEXTS: dict[Any, tuple[Callable[[Any], Any], str, dict[str, Any]]] = {
    datetime.datetime: (datetime.datetime.fromisoformat, "a date and time", {"type": "string", "format": "date-time"}),
    datetime.date: (datetime.date.fromisoformat, "a date", {"type": "string", "format": "date"}),
    datetime.time: (datetime.time.fromisoformat, "a time", {"type": "string", "format": "time"}),
    datetime.timedelta: (_read_duration, "a time span, such as PT1M30S or seconds", {"type": ["string", "number"]}),
    decimal.Decimal: (_read_decimal, "a decimal number", {"type": ["string", "number"]}),
    uuid.UUID: (uuid.UUID, "a UUID", {"type": "string", "format": "uuid"}),
}


@dataclasses.dataclass
class Field:
    """A property of a class: the annotation, and whether it must be given."""

    annotation: Any
    required: bool
    argument: str
    """The name of the argument of the class, which may be another one."""


def fields(kind: Any) -> dict[str, Field]:
    """Returns the properties that instances of a class are made of, by their names in JSON."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if typing.is_typeddict(kind):
        return {name: Field(hint, name in kind.__required_keys__, name) for name, hint in hints.items()}
    if hasattr(kind, "__struct_fields__"):
        least = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
        names = zip(kind.__struct_encode_fields__, kind.__struct_fields__)
        return {json: Field(hints[name], at < least, name) for at, (json, name) in enumerate(names)}
    if hasattr(kind, "__attrs_attrs__"):
        made = [it for it in kind.__attrs_attrs__ if it.init]
        return {it.name: Field(hints.get(it.name, Any), it.default.__class__.__name__ == "_Nothing", it.alias) for it in made}
    found, missing = {}, dataclasses.MISSING
    for name, field in kind.__dataclass_fields__.items():
        # `ClassVar` is none of the object, `InitVar` is given though no field.
        if field.init and typing.get_origin(hints[name]) is not ClassVar and hints[name] is not ClassVar:
            annotation = hints[name].type if isinstance(hints[name], dataclasses.InitVar) else hints[name]
            found[name] = Field(annotation, field.default is missing and field.default_factory is missing, name)
    return found


def has_fields(kind: Any) -> bool:
    """Returns whether a class is made of properties."""
    if not isinstance(kind, type):
        return False
    names = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__")
    return typing.is_typeddict(kind) or any(hasattr(kind, name) for name in names)


def resolve(annotation: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """Returns an annotation without what says nothing about values, its origin and its arguments."""
    while True:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        elif isinstance(annotation, typing.TypeVar):
            annotation = annotation.__bound__ or (Union[annotation.__constraints__] if annotation.__constraints__ else Any)
        elif origin in _QUALIFIERS:
            annotation = arguments[0]
        else:
            return annotation, origin, arguments


def bound(annotation: Any, kind: Any, arguments: tuple[Any, ...]) -> Any:
    """Returns an annotation of a generic class with the arguments of the class."""
    if not arguments:
        return annotation
    given = dict(zip(getattr(kind, "__parameters__", ()), arguments))
    if isinstance(annotation, typing.TypeVar):
        return given.get(annotation, annotation)
    inner = getattr(annotation, "__parameters__", ())
    return annotation[tuple(given.get(it, it) for it in inner)] if inner else annotation


def convert(annotation: Any, value: Any, path: str = "") -> Any:
    """Returns JSON as a value of an annotation. Raises ValueError with the path of what does not fit."""
    annotation, origin, arguments = resolve(annotation)
    if origin is typing.Annotated:
        return convert(arguments[0], value, path)
    if annotation in (Any, object):
        return value
    if annotation is None or annotation in SIMPLE:
        return _simple(type(None) if annotation is None else annotation, value, path)
    if annotation in TEXTS:
        return _text(annotation, value, path)
    if is_union(origin):
        return _one_of(arguments, value, path)
    if origin is Literal:
        return check(any(value == it and type(value) is type(it) for it in arguments), value, annotation, path)
    kind = origin or annotation
    if kind is tuple:
        return _tuple(arguments, value, path)
    if kind in LISTS or kind in SETS:
        check(isinstance(value, list), value, "a list", path)
        of = arguments[0] if arguments else Any
        items = [convert(of, item, f"{path}[{at}]") for at, item in enumerate(value)]
        return items if kind in LISTS else frozenset(items) if kind is frozenset else set(items)
    if kind in MAPPINGS:
        check(isinstance(value, dict), value, "an object", path)
        of = arguments[1] if arguments else Any
        return {key: convert(of, item, _below(path, key)) for key, item in value.items()}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        members = {plain_key(member.value): member for member in kind}
        check(plain_key(value) in members, value, f"one of {[member.value for member in kind]}", path)
        return members[plain_key(value)]
    if callable(getattr(kind, "model_validate", None)):
        return _model(kind, value, path)
    return _object(kind, arguments, value, path)


def plain_key(value: Any) -> str:
    """Returns a text that differs between values of JSON."""
    return to_json(value)


def _model(kind: Any, value: Any, path: str) -> Any:
    try:
        return kind.model_validate(value)
    except ValueError as error:
        raise ValueError(f"{path}: {error}" if path else str(error)) from None


def _tuple(arguments: tuple[Any, ...], value: Any, path: str) -> Any:
    check(isinstance(value, list), value, "a list", path)
    if not arguments:
        return tuple(value)
    if arguments[-1] is Ellipsis:
        arguments = arguments[:1] * len(value)
    arguments = () if arguments == ((),) else arguments
    check(len(value) == len(arguments), value, f"a list of {len(arguments)}", path)
    return tuple(convert(of, item, f"{path}[{at}]") for at, (of, item) in enumerate(zip(arguments, value)))


def _text(annotation: Any, value: Any, path: str) -> Any:
    read, called, _ = TEXTS[annotation]
    try:
        return read(value)
    except (ValueError, TypeError, AttributeError, ArithmeticError):
        return check(False, value, called, path)


def _object(kind: Any, arguments: tuple[Any, ...], value: Any, path: str) -> Any:
    check(isinstance(value, dict), value, "an object", path)
    own = fields(kind)
    for key in sorted(name for name, field in own.items() if field.required):
        if key not in value:
            raise ValueError(f"{_below(path, key)} is missing")
    given = {
        field.argument: convert(bound(field.annotation, kind, arguments), value[key], _below(path, key))
        for key, field in own.items()
        if key in value
    }
    return given if typing.is_typeddict(kind) else kind(**given)


def _simple(annotation: type, value: Any, path: str) -> Any:
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(check(abs(value) <= sys.float_info.max, value, "number", path))
    if annotation is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return check(type(value) is annotation, value, SIMPLE[annotation], path)


def _one_of(arguments: tuple[Any, ...], value: Any, path: str) -> Any:
    errors = []
    for argument in arguments:
        try:
            return convert(argument, value, path)
        except ValueError as error:
            errors.append(str(error))
    raise ValueError("; or ".join(errors))


def check(fits: bool, value: Any, expected: object, path: str) -> Any:
    """Returns a value that fits, or raises ValueError with its path."""
    if not fits:
        raise ValueError(f"{path or 'the whole'} is {json.dumps(value)[:80]}, not {expected}")
    return value


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def is_union(origin: Any) -> bool:
    """Returns whether it is that of `A | B`."""
    return origin is Union or origin is types.UnionType
