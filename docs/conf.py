"""Sphinx: the pages of the repository as a site.

    pip install '.[docs]' && sphinx-build -W -c docs . build/docs

The source directory is the repository, so pages link to each other as they do in a clone.
"""

from netsim.version import __version__

project = "netsim"
release = __version__
copyright = "the netsim contributors"

root_doc = "docs/index"
include_patterns = [
    *("*.md", "docs/*.md", "netsim/**.md", ".github/*.md"),
    *("experiments/README.md", "topologies/README.md", "transports/README.md"),
]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"netsim {release}"
html_copy_source = False
