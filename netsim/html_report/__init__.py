"""The report of results: one HTML file that works offline (`netsim report`).

`page.py` writes the file. Each other file here, or in a folder of this name of an application, may
have

- `setting(report)` and `headlines(report)`: sentences for the top of the page, computed from the
  results: the setup and the main outcomes;
- `comparison(report)`: sections about all results;
- `of_point(report, result)`: sections about one result;
- `ORDER`: the position of its sections.

A section is a title, sentences and parts; `parts.py` makes the parts, and `static/report.js` draws
each kind. A file adds a section only if the results have its data. Text from results becomes text
in the page, never markup or code. Nothing is simulated again.
"""

from netsim.html_report.page import write_report

__all__ = ["write_report"]
