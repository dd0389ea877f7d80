"""Artifacts with the mock host."""

import unittest

from host_jobs import Ctx, MockHost


def report(ctx: Ctx, fails: bool) -> None:
    with ctx.artifacts.create("rows.csv", "text/csv") as file:
        for n in range(3):
            file.write(f"{n},{n * n}\n".encode())
    with ctx.artifacts.create("large") as file:
        file.write(b"x" * (3 << 20))
    ctx.artifacts.create("forgotten").write(b"x")
    if fails:
        raise ValueError("no")


def cut(ctx: Ctx, _: None) -> None:
    try:
        with ctx.artifacts.create("half") as file:
            file.write(b"x")
            raise ValueError("no")
    except ValueError:
        pass


class Artifacts(unittest.TestCase):
    def test_they_are_kept_if_the_attempt_completes(self) -> None:
        host = MockHost()
        host.run(report, False)
        kept = host.artifacts_kept
        self.assertEqual(kept["rows.csv"], b"0,0\n1,1\n2,4\n")
        self.assertEqual(kept["large"], b"x" * (3 << 20))
        self.assertEqual(sorted(kept), ["large", "rows.csv"])

    def test_nothing_is_kept_of_an_attempt_that_fails(self) -> None:
        host = MockHost()
        with self.assertRaises(ValueError):
            host.run(report, True)
        self.assertEqual(host.artifacts_kept, {})

    def test_a_block_that_raises_an_error_keeps_no_half_of_a_file(self) -> None:
        host = MockHost()
        host.run(cut)
        self.assertEqual(host.artifacts_kept, {})


if __name__ == "__main__":
    unittest.main()
