"""Sphinx: the pages of the repository as a site.

    pip install '.[docs]' && sphinx-build -W -c docs . build/docs

The source directory is the repository, so pages link to each other as they do in a clone.
"""

from sphinx.application import Sphinx

from netsim.version import __version__

project = "netsim"
release = __version__
copyright = "the netsim contributors"

root_doc = "docs/index"
include_patterns = [
    *("CHANGELOG.md", "CONTRIBUTING.md", "docs/*.md", "netsim/**.md", ".github/*.md"),
    *("experiments/README.md", "topologies/README.md", "transports/README.md"),
]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"netsim {release}"
html_copy_source = False

BELOW = {
    "docs/networks": ["docs/routing", "docs/circuits", "docs/faults"],
    "docs/transports": ["docs/queues", "docs/throughput"],
    "netsim/workloads/training/README": [
        *("netsim/workloads/job/README", "docs/collectives", "docs/forecast"),
        "docs/several-jobs",
    ],
    "docs/serving": [
        *("docs/inference", "netsim/workloads/inference/README", "netsim/workloads/cost/README")
    ],
    "docs/plugins": [
        *("transports/README", "netsim/queues/README", "netsim/routing_algorithms/README"),
        *("topologies/README", "netsim/traffic/README"),
    ],
    "docs/accuracy": ["docs/comparisons"],
    "docs/other-simulators": [
        *("docs/from-htsim", "docs/from-ns3", "docs/from-simai", "docs/from-astra-sim"),
        "docs/from-booksim",
    ],
    "CONTRIBUTING": [
        *("netsim/README", "netsim/engine/README", "netsim/SECURITY"),
        *(".github/SECURITY", ".github/CODE_OF_CONDUCT"),
    ],
}
"""Pages that the sidebar shows below another page."""


def add_pages_below(_: Sphinx, page: str, source: list[str]) -> None:
    """Append a hidden table of contents to a page, for the side bar."""
    if page in BELOW:
        lines = "\n".join(f"/{one}" for one in BELOW[page])
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n\n{lines}\n```\n"


def setup(app: Sphinx) -> None:
    """Register with Sphinx."""
    app.connect("source-read", add_pages_below)
