"""Schemas and values of annotations."""

import enum
import unittest
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional, TypedDict

from host_jobs import Category, Ctx, JobError, MockHost, handler
from host_jobs.errors import failure
from host_jobs.handlers import call
from host_jobs.schemas import schema
from host_jobs.values import convert, to_json


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Node:
    """A node of a tree."""

    name: Annotated[str, "Its name."]
    below: "list[Node]" = field(default_factory=list)
    size: Size = Size.SMALL


class Point(TypedDict, total=False):
    x: float


class Values(unittest.TestCase):
    def test_a_category_has_one_spelling_and_others_are_accepted(self):
        for category in (Category.DATA_QUALITY, "DATA_QUALITY", "data_quality", "data-quality"):
            self.assertIs(JobError("no", category=category).category, Category.DATA_QUALITY)
        with self.assertRaisesRegex(ValueError, "expected one of USER_CODE, .*, got mine"):
            JobError("no", category="mine")

    def test_annotations_have_schemas(self):
        for annotation, expected in [
            (str, {"type": "string"}),
            (Any, {}),
            (None, {"type": "null"}),
            (list[int], {"type": "array", "items": {"type": "integer"}}),
            (dict[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
            (Optional[float], {"anyOf": [{"type": "number"}, {"type": "null"}]}),
            (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            (Literal["a", 1], {"enum": ["a", 1]}),
            (Size, {"enum": ["s", "l"]}),
        ]:
            self.assertEqual(schema(annotation), expected)
        node = schema(Node)
        self.assertEqual(node["$ref"], "#/$defs/Node")
        definition = node["$defs"]["Node"]
        self.assertEqual(definition["required"], ["name"])
        self.assertEqual(definition["description"], "A node of a tree.")
        self.assertEqual(definition["properties"]["name"], {"type": "string", "description": "Its name."})
        self.assertEqual(definition["properties"]["below"]["items"], {"$ref": "#/$defs/Node"})

    def test_what_has_no_schema_is_refused(self):
        for annotation in (complex, list[bytes], bytes, dict[int, str], Ctx):
            with self.assertRaises(TypeError):
                schema(annotation)
        with self.assertRaisesRegex(TypeError, "the handler bad: params: .*bytes"):

            @handler("bad")
            def bad(ctx: Ctx, params: bytes) -> None: ...

    def test_values_are_converted_and_written_again(self):
        given = {"name": "a", "below": [{"name": "b", "size": "l"}], "more": 1}
        node = convert(Node, given)
        self.assertEqual(node, Node("a", [Node("b", size=Size.LARGE)]))
        self.assertEqual(
            to_json(node), '{"name":"a","below":[{"name":"b","below":[],"size":"l"}],"size":"s"}'
        )
        self.assertEqual(convert(Point, {"x": 1}), {"x": 1.0})
        self.assertIsInstance(convert(int, 2.0), int)

    def test_what_does_not_fit_has_its_path(self):
        for annotation, value, expected in [
            (Node, {"name": "a", "below": [{"name": 1}]}, "below[0].name is 1, not string"),
            (Node, {}, "name is missing"),
            (Node, {"name": "a", "size": "x"}, "size is \"x\", not one of ['s', 'l']"),
            (int, True, "the whole is true, not integer"),
            (dict[str, int], {"a": "b"}, 'a is "b", not integer'),
            (Literal["a"], "b", "the whole is \"b\", not typing.Literal['a']"),
            (int | None, "b", 'the whole is "b", not integer; or the whole is "b", not null'),
        ]:
            with self.assertRaises(ValueError) as raised:
                convert(annotation, value)
            self.assertEqual(str(raised.exception), expected)

    def test_results_without_json_are_errors(self):
        @handler("result")
        def result(ctx: Ctx, params: Any):
            return {"object": object(), "nan": float("nan"), "half": "\ud800"}[params]

        for params in ("object", "nan", "half"):
            with self.assertRaises(Exception) as raised:
                MockHost().call("result", params)
            self.assertEqual(failure(raised.exception).value.kind, "invalid_result")


class Stacks(unittest.TestCase):
    def test_a_stack_begins_in_the_handler(self):
        @handler("deep")
        def deep(ctx: Ctx, params: Any):
            deeper()

        def deeper():
            raise KeyError("k")

        job, host = MockHost().job, MockHost()
        job.function = "deep"
        stack = None
        try:
            call(job, "null", host)
        except KeyError as error:
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # The frame of this test.
            stack = failure(error).value.stack
        self.assertIn("in deeper", stack)
        self.assertNotIn("host_jobs", stack)
