"""Reads one job per line, enqueues it with RRQ's own producer, and prints its id."""

import asyncio
import json
import sys

from rrq.client import RRQClient


async def main() -> None:
    client = RRQClient(config_path=sys.argv[1])
    for line in sys.stdin:
        job = json.loads(line)
        print(await client.enqueue(job["function"], job["options"]), flush=True)


asyncio.run(main())
