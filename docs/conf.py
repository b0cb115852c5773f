"""The site: what Sphinx needs to know. `make docs` builds it."""

from __future__ import annotations

import os
import re
import sys
import warnings
from importlib.metadata import distribution
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE / "_ext")]
os.environ.setdefault("OMP_NUM_THREADS", "2")

from public_names import NAMESPACES, exists, is_shown, public_home  # noqa: E402

import bagwise  # noqa: E402

# Public namespaces live elsewhere in the package; Sphinx imports names as users write them.
for _name in NAMESPACES:
    sys.modules.setdefault(f"bagwise.{_name}", getattr(bagwise, _name))

project = "bagwise"
author = "The bagwise developers"
copyright = "The bagwise developers"
version = release = bagwise.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "command_help",
]
root_doc = "index"
exclude_patterns = ["_build", "_templates", "_ext", "gallery", "results/*.html"]
templates_path = ["_templates"]
nitpicky = True
suppress_warnings = [
    "myst.header",  # tables of results are printed by commands, as parts of a longer page
    "config.cache",  # functions in the settings of the gallery
]

# Markdown ---------------------------------------------------------------------------------------
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath", "substitution"]
myst_fence_as_directive = ["math"]  # so that ```math is read by code hosts and by Sphinx
myst_heading_anchors = 3
myst_substitutions = {"version": version}

# Mathematics is drawn by a script that is part of the site. One file, and no fonts to fetch.
_drawn_by = "sphinx-mathjax-offline/static/mathjax/tex-svg.js"
html_static_path = ["_static", str(distribution("sphinx-mathjax-offline").locate_file(_drawn_by))]
mathjax_path = "tex-svg.js"

# Reference --------------------------------------------------------------------------------------
autosummary_generate = True
autodoc_typehints = "none"  # shapes and types are in the text
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": True}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Gallery ----------------------------------------------------------------------------------------
os.environ["BAGWISE_GALLERY"] = "1"


class AsNamed:
    """Examples in the order of their numbers; a class that prints the same in every run."""

    def __init__(self, folder: str) -> None:
        """Take the folder, which does not matter."""

    def __call__(self, name: str) -> str:
        """Return what to sort by."""
        order = (HERE / "gallery" / "order.txt").read_text(encoding="utf-8").split()
        return f"{order.index(name):03d}"


sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "within_subsection_order": AsNamed,
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 0,
    "matplotlib_animations": False,
    "reset_modules": ("matplotlib",),
    "image_scrapers": ("matplotlib",),
    "doc_module": (),
    "backreferences_dir": None,
    "remove_config_comments": True,
    "capture_repr": ("_repr_html_", "__repr__"),
    "plot_gallery": os.environ.get("BAGWISE_DOCS_PLOT", "True") == "True",
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# Pages ------------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "bagwise"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_context = {"default_mode": "auto"}
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "bagwise", "alt_text": "bagwise: home"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "back_to_top_button": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {
    "index": [],
    "getting_started": [],
    "benchmarks": [],
    "changelog": [],
    "faq": [],
}


def _skip(app, what, name, obj, skip, options):
    """Leave out what is inherited from others, and what models only need among themselves."""
    return True if not is_shown(name, obj) else None


def _resolve(app, env, node, contnode):
    """Let docstrings name a thing by the module that holds it: the page has its public name."""
    if node.get("refdomain") != "py":
        return None
    target = public_home(node["reftarget"])
    if target is None:  # a part of the house that users need not enter has no page
        return contnode if exists(node["reftarget"]) else None
    python = env.get_domain("py")
    return python.resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], target, node, contnode
    ) or (contnode if target.removeprefix("bagwise.") in NAMESPACES else None)


def _escape(app, what, name, obj, options, lines):
    """Keep |x| and **options of docstrings from being marks of reStructuredText."""
    for place, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            line = re.sub(r"(?<![|`\\])\|([^|`]+)\|", r"\|\1\|", line)
            lines[place] = re.sub(r"(?<=[ ,])\*\*(?=\w+\b(?!\*))", r"\*\*", line)


def setup(app):
    """Connect what is ours."""
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _escape, priority=400)  # before numpydoc
    app.connect("missing-reference", _resolve)
