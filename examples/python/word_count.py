"""A component with one handler."""

from host_jobs import Handler, handler, info  # noqa: F401 (the component exports Handler)

PARAMS = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}


@handler("py-word-count", params_schema=PARAMS)
def word_count(params, ctx):
    """Counts the words of a text."""
    counts = {}
    for word in params["text"].lower().split():
        counts[word] = counts.get(word, 0) + 1
    info("counted", words=sum(counts.values()), attempt=ctx.attempt)
    return counts
