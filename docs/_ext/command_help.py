"""Directives that say what the program itself says, so that no page can fall behind it.

``{command} fit`` is the help of ``bagwise fit``, as the command has it at the moment of the build.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive


def command(name: str) -> tuple[Any, Any]:
    """Return a command of bagwise and the context in which it would run."""
    import typer

    from bagwise import cli  # noqa: F401  (registers the commands)
    from bagwise.cli import shell

    program = typer.main.get_command(shell.app)
    context = program.make_context("bagwise", [], resilient_parsing=True)
    if name == "bagwise":
        return program, context
    found = program.get_command(context, name)
    return found, type(context)(found, info_name=f"bagwise {name}", parent=None)


def paragraphs(text: str) -> list[nodes.Node]:
    """Return a text of help as paragraphs, with what is typed at a shell in blocks."""
    made: list[nodes.Node] = []
    for part in re.split(r"\n\s*\n", text.replace("\b", "").strip()):
        part = " ".join(part.split())
        if part.startswith("bagwise "):
            made.append(nodes.literal_block(part, part, language="sh"))
        else:
            made.append(nodes.paragraph("", "", *_inline(part)))
    return made


def _inline(text: str) -> list[nodes.Node]:
    """Return a sentence in which `this` is code."""
    parts = re.split(r"`([^`]+)`", text)
    return [nodes.literal(p, p) if i % 2 else nodes.Text(p) for i, p in enumerate(parts)]


class CommandHelp(Directive):
    """The help of a command: what it does, and each argument and option with its default."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes."""
        found, context = command(self.arguments[0])
        usage = " ".join(found.get_usage(context).removeprefix("Usage:").split())
        made = [nodes.literal_block(usage, usage, language="text", classes=["usage"])]
        made += paragraphs(found.help or "")
        items = []
        for parameter in found.get_params(context):
            record = parameter.get_help_record(context)
            if record is not None:
                names, text = record
                term = nodes.term("", "", nodes.literal(names, names))
                body = nodes.paragraph("", "", *_inline(" ".join(text.split())))
                items.append(nodes.definition_list_item("", term, nodes.definition("", body)))
        made.append(nodes.definition_list("", *items, classes=["options"]))
        if found.epilog:
            made += paragraphs(found.epilog)
        return made


def setup(app: Any) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("command", CommandHelp)
    return {"version": "1", "parallel_read_safe": True}
