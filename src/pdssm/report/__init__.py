"""What a run became, to look at: one self-contained HTML page, and its figures as files.

``examine`` finds out all there is to tell about a run, ``collect`` tells what was found out elsewhere; ``write_page``
and ``write_figures`` show it.  Not imported by ``import pdssm``.
"""

from pdssm.report.collect import collect
from pdssm.report.examine import examine
from pdssm.report.figures import write_figures
from pdssm.report.page import page, write_page
from pdssm.report.story import Finding, Story

__all__ = ["Finding", "Story", "collect", "examine", "page", "write_figures", "write_page"]
