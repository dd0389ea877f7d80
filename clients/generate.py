"""Writes what the clients in Python and TypeScript know of the API, from its OpenAPI document.

    python3 clients/generate.py openapi.json FOLDER

writes `python/host_jobs_client/api.py`, `typescript/src/api.js` and `typescript/src/api.d.ts` below FOLDER. A schema
becomes a type, an operation a method, and a tag a group of methods.
"""

import json
import keyword
import re
import sys
import textwrap
from pathlib import Path

# The parts of the document that are for clients. The others are for peers of wires and for the dashboard.
TAGS = [
    "jobs", "batches", "queues", "limits", "schedules", "state", "handlers", "components", "runners", "nodes",
    "tokens", "webhooks", "host",
]  # fmt: skip
HAND_WRITTEN = {"/api/v1/openapi.json", "/api/v1/sessions", "/api/v1/sessions/self"}
EXTRA = ["ChangeView", "ProgressEventView", "GapView", "Problem", "JobOptions", "Upload"]
SUCCESS = ["201", "200"]


def renamed(schema: str) -> str:
    """`PageView_Job` is `JobPage`, `LineView` is `Line`."""
    page = re.fullmatch("PageView_(.*)", schema)
    if page:
        return renamed(page[1]) + "Page"
    return schema.removesuffix("View")


def camel(name: str, sep: str = "_") -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(f"[{sep} ]", name))


def words(text: str) -> str:
    return " ".join(text.split()).replace("*/", "* /")


def refs(node: object) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(refs, node))
    if not isinstance(node, dict):
        return set()
    found = set().union(*map(refs, node.values()))
    if "$ref" in node:
        found.add(node["$ref"].rpartition("/")[2])
    return found


def options_of(job: dict) -> dict:
    """What a job may have besides its handler and params."""
    fields = {name: field for name, field in job["properties"].items() if name not in ("handler", "params")}
    return {"type": "object", "description": "What else a job may have.", "properties": fields}


class Operation:
    def __init__(self, method: str, path: str, described: dict):
        self.tag, self.method, self.path = described["tags"][0], method.upper(), path
        name = described["operationId"].removesuffix("_" + self.tag)
        # `set_limit` of `limits` is `set`.
        for noun in (self.tag, self.tag.removesuffix("s")):
            name = name.removesuffix("_" + noun)
        self.name = name
        parameters = described.get("parameters", [])
        self.places = [it for it in parameters if it["in"] == "path"]
        self.query = [it for it in parameters if it["in"] == "query"]
        self.query_name = camel(self.tag) + camel(name) + "Query"
        contents = described.get("requestBody", {}).get("content", {})
        self.body = contents.get("application/json", {}).get("schema")
        if self.body and refs(self.body) == {"EmptyBody"}:
            self.body = None
        self.needs_body = described.get("requestBody", {}).get("required", False)
        self.is_made = not contents or "application/json" in contents
        answers = [described["responses"].get(status, {}).get("content", {}) for status in SUCCESS]
        answers = [it["application/json"]["schema"] for it in answers if "application/json" in it]
        self.answer = answers[0] if answers else None
        self.doc = words(described.get("summary", "") + " " + described.get("description", ""))

    def query_schema(self) -> dict:
        fields = {it["name"]: {**it["schema"], "description": it.get("description", "")} for it in self.query}
        required = [it["name"] for it in self.query if it["required"]]
        return {"type": "object", "properties": fields, "required": required}


class Api:
    def __init__(self, document: dict):
        operations = [
            Operation(method, path, described)
            for path, methods in sorted(document["paths"].items())
            for method, described in sorted(methods.items())
            if path not in HAND_WRITTEN and described["tags"][0] in TAGS
        ]
        operations = [it for it in operations if it.answer and it.is_made]
        self.groups = {tag: [it for it in operations if it.tag == tag] for tag in TAGS}
        schemas = document["components"]["schemas"]
        schemas["JobOptions"] = options_of(schemas["NewJob"])
        wanted = set(EXTRA)
        for operation in operations:
            wanted |= refs([operation.body, operation.answer, operation.query_schema()])
        reached: set[str] = set()
        while wanted - reached:
            name = (wanted - reached).pop()
            reached.add(name)
            wanted |= refs(schemas[name])
        self.schemas = {renamed(name): schemas[name] for name in sorted(reached)}
        assert len(self.schemas) == len(reached), "two schemas have one name"
        for operation in operations:
            if operation.query:
                self.schemas[operation.query_name] = operation.query_schema()
            names = [it.name for it in self.groups[operation.tag]]
            assert names.count(operation.name) == 1, f"{operation.tag} has two operations {operation.name}"


def fields_of(schema: dict, bases: list[str]) -> dict[str, tuple[dict, bool]] | None:
    """The fields of an object, each with whether it is required; those of other schemas are in `bases`."""
    if "allOf" in schema:
        fields: dict[str, tuple[dict, bool]] = {}
        for part in schema["allOf"]:
            if "$ref" in part:
                bases.append(renamed(part["$ref"].rpartition("/")[2]))
            else:
                fields |= fields_of(part, bases) or {}
        return fields
    if "properties" not in schema and schema.get("additionalProperties") is not False:
        return None
    required = schema.get("required", [])
    return {name: (field, name in required) for name, field in schema.get("properties", {}).items()}


def sample_types(schema: dict) -> list[str]:
    types = schema.get("type", [])
    return types if isinstance(types, list) else [types]


class Language:
    """How a language writes a type."""

    WORDS: dict[str, str]
    ANY: str

    def type(self, schema: dict, name: str) -> str:
        if "$ref" in schema:
            return renamed(schema["$ref"].rpartition("/")[2])
        if "enum" in schema:
            return self.literal(schema["enum"])
        choices = schema.get("oneOf") or schema.get("anyOf")
        if choices:
            return " | ".join(dict.fromkeys(self.type(it, name) for it in choices))
        return " | ".join(self.plain(kind, schema, name) for kind in sample_types(schema)) or self.ANY

    def plain(self, kind: str, schema: dict, name: str) -> str:
        if kind == "array":
            return self.array(self.type(schema["items"], name))
        if kind == "object":
            if fields_of(schema, []) is not None:
                return self.object(schema, name)
            values = schema.get("additionalProperties") or {}
            return self.mapping(self.type({} if values is True else values, name))
        return self.WORDS[kind]


class Python(Language):
    WORDS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
    ANY = "Any"

    def __init__(self, api: Api):
        self.written: dict[str, str] = {}
        self.api = api
        for name in api.schemas:
            self.define(name, api.schemas[name])

    def literal(self, values: list) -> str:
        return f"Literal[{', '.join(json.dumps(it) for it in values)}]"

    def array(self, item: str) -> str:
        return f"List[{item}]"

    def mapping(self, value: str) -> str:
        return f"Dict[str, {value}]"

    def object(self, schema: dict, name: str) -> str:
        """Gives an object inside of another schema a name of its own."""
        name += camel(next(iter(schema["properties"])))
        self.define(name, schema)
        return name

    def define(self, name: str, schema: dict) -> None:
        if name in self.written:
            return
        bases: list[str] = []
        fields = fields_of(schema, bases)
        doc = words(schema.get("description", ""))
        if fields is None:
            self.written[name] = f'{name}: TypeAlias = {self.type(schema, name)!r}\n"""{doc}"""\n'
            return
        for base in bases:
            self.define(base, self.api.schemas[base])
        shown = {}
        for field, (inner, required) in fields.items():
            written = self.type(inner, name)
            shown[field] = (written if required else f"NotRequired[{written}]", described(inner))
        if any(map(keyword.iskeyword, shown)):
            lines = [f"{name} = TypedDict(", f'    "{name}",', "    {"]
            lines += [f"        {field!r}: {written!r}," for field, (written, _) in shown.items()]
            lines += ["    },", ")", f'"""{doc}"""']
        else:
            lines = [f"class {name}({', '.join(bases) or 'TypedDict'}):"]
            lines += [f'    """{doc}"""', ""] if doc else []
            for field, (written, about) in shown.items():
                lines.append(f"    {field}: {written}")
                lines += [f'    """{about}"""'] if about else []
        self.written[name] = "\n".join(lines) + "\n"

    def method(self, operation: Operation) -> str:
        places = [it["name"] for it in operation.places]
        arguments = ["self", *(f"{it}: str" for it in places)]
        if operation.body:
            body = self.type(operation.body, camel(operation.name))
            body = body.removesuffix(" | None")
            arguments.append(f"body: {body}" if operation.needs_body else f"body: {body} | None = None")
        if operation.query:
            arguments.append(f"**query: Unpack[{operation.query_name}]")
        sent = [repr(operation.method), repr(operation.path)]
        sent.append(f"({', '.join(places)}{',' if len(places) == 1 else ''})")
        sent.append("dict(query)" if operation.query else "{}")
        body = "body" if operation.needs_body else "body or {}"
        sent += [body] if operation.body else ["{}"] if operation.method == "POST" else []
        answer = self.type(operation.answer, camel(operation.name))
        return (
            f"    def {operation.name}({', '.join(arguments)}) -> {answer}:\n"
            f'        """{operation.doc}"""\n'
            f"        answer: {answer} = self._call({', '.join(sent)})\n"
            "        return answer\n"
        )

    def text(self) -> str:
        out = [PYTHON_HEAD, *self.written.values()]
        for tag, operations in self.api.groups.items():
            methods = "\n".join(map(self.method, operations))
            out.append(f'class {camel(tag)}Api(Group):\n    """`client.api.{tag}`"""\n\n{methods}')
        groups = "".join(f"        self.{tag} = {camel(tag)}Api(call)\n" for tag in self.api.groups)
        out.append(f"class Api:\n{PYTHON_API}{groups}")
        return "\n\n".join(out).replace(' """"', ' """')


PYTHON_HEAD = '''"""The documents and the operations of the API. `clients/generate.py` writes this file from the OpenAPI document."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Literal, NotRequired, TypeAlias, TypedDict, Unpack


class Group:
    """Operations on one kind of thing."""

    def __init__(self, call: Callable[..., Any]):
        self._call = call
'''

PYTHON_API = '''    """All operations of the API, in groups."""

    def __init__(self, call: Callable[..., Any]):
'''


def described(schema: dict) -> str:
    """The description of a field, also if it stands beside a reference that may be absent."""
    if schema.get("description"):
        return words(schema["description"])
    return next((words(it["description"]) for it in schema.get("oneOf", []) if it.get("description")), "")


class TypeScript(Language):
    WORDS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
    ANY = "any"

    def __init__(self, api: Api):
        self.api = api

    def literal(self, values: list) -> str:
        return " | ".join(json.dumps(it) for it in values)

    def array(self, item: str) -> str:
        return f"Array<{item}>"

    def mapping(self, value: str) -> str:
        return f"Record<string, {value}>"

    def object(self, schema: dict, name: str) -> str:
        fields = fields_of(schema, [])
        return "{ " + "; ".join(self.field(it, *fields[it], name) for it in fields) + " }"

    def field(self, field: str, schema: dict, required: bool, name: str) -> str:
        return f"{field}{'' if required else '?'}: {self.type(schema, name)}"

    def define(self, name: str) -> str:
        schema = self.api.schemas[name]
        bases: list[str] = []
        fields = fields_of(schema, bases)
        doc = words(schema.get("description", ""))
        head = f"/** {doc} */\n" if doc else ""
        if fields is None:
            return f"{head}export type {name} = {self.type(schema, name)};\n"
        extends = f" extends {', '.join(bases)}" if bases else ""
        lines = []
        for field, (inner, required) in fields.items():
            about = described(inner)
            lines += [f"  /** {about} */"] if about else []
            lines.append(f"  {self.field(field, inner, required, name)};")
        body = "\n".join(lines)
        return f"{head}export interface {name}{extends} {{\n{body}\n}}\n"

    def method(self, operation: Operation) -> str:
        arguments = [f"{it['name']}: string" for it in operation.places]
        if operation.body:
            is_last = not any(it["required"] for it in operation.query)
            optional = "?" if is_last and not operation.needs_body else ""
            arguments.append(f"body{optional}: {self.type(operation.body, '')}")
        if operation.query:
            required = any(it["required"] for it in operation.query)
            arguments.append(f"query{'' if required else '?'}: {operation.query_name}")
        answer = self.type(operation.answer, "")
        name = lower_camel(operation.name)
        return f"  /** {operation.doc} */\n  {name}({', '.join(arguments)}): Promise<{answer}>;\n"

    def types(self) -> str:
        out = [TYPESCRIPT_HEAD, *map(self.define, self.api.schemas)]
        for tag, operations in self.api.groups.items():
            methods = "".join(map(self.method, operations))
            out.append(f"/** `client.api.{tag}` */\nexport interface {camel(tag)}Api {{\n{methods}}}\n")
        groups = "".join(f"  {tag}: {camel(tag)}Api;\n" for tag in self.api.groups)
        out.append(f"/** All operations of the API, in groups. */\nexport interface Api {{\n{groups}}}\n")
        return "\n".join(out)

    def code(self) -> str:
        out = [TYPESCRIPT_HEAD, "export const operations = {"]
        for tag, operations in self.api.groups.items():
            out.append(f"  {tag}: {{")
            for it in operations:
                takes = f"{'true' if it.body else 'false'}, {'true' if it.query else 'false'}"
                out.append(f"    {lower_camel(it.name)}: ['{it.method}', '{it.path}', {takes}],")
            out.append("  },")
        return "\n".join([*out, "};\n"])


TYPESCRIPT_HEAD = """\
// The documents and the operations of the API. `clients/generate.py` writes this file from the OpenAPI document.
"""


def lower_camel(name: str) -> str:
    return name[0] + camel(name)[1:]


def wrapped(text: str) -> str:
    """Breaks documentation that is longer than a line."""
    out = []
    for line in text.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        if len(line) > 120 and line.lstrip().startswith('"""'):
            inner = line.strip().strip('"')
            parts = textwrap.wrap(inner, 110 - len(indent))
            out += [f'{indent}"""{parts[0]}', *(indent + it for it in parts[1:]), f'{indent}"""']
        elif len(line) > 120 and line.lstrip().startswith("/**"):
            parts = textwrap.wrap(line.strip()[3:-2].strip(), 110 - len(indent))
            out += [f"{indent}/**", *(f"{indent} * {it}" for it in parts), f"{indent} */"]
        else:
            out.append(line)
    return "\n".join(out) + "\n"


def main() -> None:
    document, folder = Path(sys.argv[1]), Path(sys.argv[2])
    api = Api(json.loads(document.read_text()))
    typescript = TypeScript(api)
    for path, text in {
        "python/host_jobs_client/api.py": Python(api).text(),
        "typescript/src/api.d.ts": typescript.types(),
        "typescript/src/api.js": typescript.code(),
    }.items():
        path = folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wrapped(text))


main()
