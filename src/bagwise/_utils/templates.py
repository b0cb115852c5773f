"""Templates: HTML from the Jinja files of a package, in which all text is escaped."""

from __future__ import annotations

from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined


def render(package: str, name: str, **values: Any) -> str:
    """Fill in a template that lies beside the modules of a package.

    Numbers and texts as JSON (the filter ``tojson``) cannot leave the element that they are in.
    """
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(lambda template: asset(package, template)),
    )
    compact = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}
    environment.policies["json.dumps_kwargs"] = compact
    return environment.get_template(name).render(values).strip() + "\n"


def asset(package: str, name: str) -> str:
    """Return the text of a file that is delivered with a package."""
    return (resources.files(package) / name).read_text(encoding="utf-8")
