"""Makes a component whole: its files stay readable after the build, and memory that is free has zeros.

`install` runs before the project's modules are imported, `finish` after them. Both run when the component is built."""

from . import files, library, memory, platform

_modules: dict[str, library.Module] = {}
LIBRARY = "library.bin"


def install(tool: str) -> None:
    """Prepares Python for the imports of the project."""
    _modules.update(library.load(f"{tool}/{LIBRARY}"))
    files.install()
    platform.install()
    try:
        from host_jobs import network
    except ImportError:
        return  # The project has an older SDK.
    network.install()


def explain(error: ImportError, report: str) -> None:
    """Reports an import of the project that fails, and which package needs machine code."""
    from . import scan

    scan.explain(error, report)


def finish(**given) -> None:
    """Keeps the files of the component and leaves memory as a job shall find it."""
    from . import build

    build.finish(_modules, **given)
    memory.clear(files.contents())
