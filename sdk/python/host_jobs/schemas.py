"""JSON Schemas of annotations."""

from __future__ import annotations

import enum
import typing
from typing import Any, Literal

from .values import LISTS, MAPPINGS, SETS, SIMPLE, TEXTS, bound, fields, has_fields, is_union, plain, resolve


def schema(annotation: Any) -> dict[str, Any]:
    """Returns the JSON Schema of an annotation. Raises TypeError if it has none."""
    made = _Schemas()
    root = made.of(annotation)
    return {**root, "$defs": made.definitions} if made.definitions else root


class _Schemas:
    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._names: dict[Any, str] = {}

    def of(self, given: Any) -> dict[str, Any]:
        annotation, origin, arguments = resolve(given)
        if origin is typing.Annotated:
            texts = [text for text in arguments[1:] if isinstance(text, str)]
            described = {"description": " ".join(texts)} if texts else {}
            return {**self.of(arguments[0]), **described}
        if annotation in (Any, object):
            return {}
        if annotation is None or annotation in SIMPLE:
            return {"type": SIMPLE[type(None) if annotation is None else annotation]}
        if annotation in TEXTS:
            return dict(TEXTS[annotation][2])
        if is_union(origin):
            return {"anyOf": [self.of(argument) for argument in arguments]}
        if origin is Literal:
            return {"enum": [plain(it) if isinstance(it, enum.Enum) else it for it in arguments]}
        kind = origin or annotation
        if kind is tuple:
            return self._tuple(arguments)
        if kind in LISTS or kind in SETS:
            items = {"items": self.of(arguments[0])} if arguments else {}
            return {"type": "array", **items, **({"uniqueItems": True} if kind in SETS else {})}
        if kind in MAPPINGS and (not arguments or resolve(arguments[0])[0] is str):
            return {"type": "object", **({"additionalProperties": self.of(arguments[1])} if arguments else {})}
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return {"enum": [member.value for member in kind]}
        if callable(getattr(kind, "model_json_schema", None)):
            return self._model(kind)
        if has_fields(kind):
            return self._reference(annotation, kind, arguments)
        raise TypeError(
            f"{given!r} has no JSON Schema: use dataclasses, typed dictionaries, list, tuple, set, dict[str, …], str, int, float, "
            "bool, None, datetime, date, time, timedelta, Decimal, UUID, Literal, enumerations or Any"
        )

    def _tuple(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        if not arguments:
            return {"type": "array"}
        if arguments[-1] is Ellipsis:
            return {"type": "array", "items": self.of(arguments[0])}
        items = [self.of(it) for it in arguments if it != ()]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    def _reference(self, annotation: Any, kind: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
        if annotation not in self._names:
            name = self._names[annotation] = self._free_name(annotation, kind)
            self.definitions[name] = {}  # It may refer to itself.
            own = fields(kind)
            properties = {key: self.of(bound(it.annotation, kind, arguments)) for key, it in own.items()}
            required = sorted(key for key, it in own.items() if it.required)
            self.definitions[name] = {"type": "object", "properties": properties, "required": required}
            about = kind.__doc__
            if about and not about.startswith((kind.__name__ + "(", "dict(")):
                self.definitions[name]["description"] = about
        return {"$ref": f"#/$defs/{self._names[annotation]}"}

    def _free_name(self, annotation: Any, kind: Any) -> str:
        arguments = [getattr(it, "__name__", str(it)) for it in typing.get_args(annotation)]
        name = ".".join([kind.__qualname__.replace("<locals>.", ""), *arguments]).replace("/", "_").replace("~", "_")
        if name in self.definitions:  # Another module has a class of this name.
            name = f"{kind.__module__}.{name}"
        return name if name not in self.definitions else f"{name}.{len(self.definitions)}"

    def _model(self, kind: Any) -> dict[str, Any]:
        made = kind.model_json_schema(ref_template="#/$defs/{model}")
        self.definitions.update(made.pop("$defs", {}))
        return typing.cast("dict[str, Any]", made)
